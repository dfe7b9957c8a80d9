"""Sign-in through a provider: the flow, and every way to forge it, against a provider of our own.

The provider checks PKCE and can be told to lie in its tokens; each lie is one attack.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwk, jwt
from tests.adversarial.test_service_races import write

from discreet.errors import ParameterError
from discreet.service import Keys
from discreet.service._home import Home
from discreet.service._oidc import rules

pytestmark = pytest.mark.races


class Liar(ThreadingHTTPServer):
    """A provider in a thread: who signs in, and how its tokens lie, is set by the test."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answering)
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.key = jwk.RSAKey.generate_key(2048, {"kid": "k1"}, private=True)
        self.other = jwk.RSAKey.generate_key(2048, {"kid": "k1"}, private=True)
        self.claims, self.lies, self.header, self.signer = (
            {},
            {},
            {"alg": "RS256", "kid": "k1"},
            None,
        )
        self.codes: dict[str, dict] = {}

    def token(self, asked):
        now = int(time.time())
        honest = {"iss": self.issuer, "aud": "curator", "iat": now, "exp": now + 60,
                  "nonce": asked["nonce"], **self.claims}  # fmt: skip
        said = {k: v for k, v in {**honest, **self.lies}.items() if v is not None}
        if self.header["alg"] == "none":
            parts = [json.dumps(self.header), json.dumps(said)]
            coded = [base64.urlsafe_b64encode(p.encode()).rstrip(b"=").decode() for p in parts]
            return ".".join([*coded, ""])
        algorithms = [self.header["alg"]]
        return jwt.encode(self.header, said, self.signer or self.key, algorithms=algorithms)


class Answering(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def _say(self, status, said, **headers):
        body = json.dumps(said).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        liar, asked = self.server, urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(asked.query).items()}
        if asked.path == "/.well-known/openid-configuration":
            self._say(200, {"issuer": liar.issuer, "jwks_uri": f"{liar.issuer}/keys",
                            "authorization_endpoint": f"{liar.issuer}/authorize",
                            "token_endpoint": f"{liar.issuer}/token"})  # fmt: skip
        elif asked.path == "/keys":
            self._say(200, {"keys": [liar.key.as_dict(private=False)]})
        else:
            code = f"code{len(liar.codes)}"
            liar.codes[code] = query
            back = f"{query['redirect_uri']}?code={code}&state={query['state']}"
            self._say(302, {}, Location=back)

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        form = {k: v[0] for k, v in parse_qs(self.rfile.read(length).decode()).items()}
        asked = self.server.codes.pop(form.get("code"), None)
        proof = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        coded = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != coded:
            self._say(400, {"error": "invalid_grant"})
        else:
            token = self.server.token(asked)
            self._say(200, {"access_token": "x", "token_type": "Bearer", "id_token": token})


@pytest.fixture(scope="module")
def liar():
    made = Liar()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def hospital(tmp_path_factory, start_service, liar):
    """A service that signs people in through the provider; it has a key of olga's, too."""
    folder = tmp_path_factory.mktemp("oidc")
    path = write(folder, "hospital", epsilon="1")
    key = Keys(Home(folder / "home")).add("olga", "owner")
    settings = folder / "oidc.toml"
    settings.write_text(
        f'issuer = "{liar.issuer}"\nclient_id = "curator"\nclient_secret = "s"\n'
        'address = "http://127.0.0.1:1"\nclaim = "sub"\n'
        '[people]\n"ana-1" = { name = "ana", role = "analyst" }\n'
        '[groups]\nauditors = "auditor"\n'
    )
    served = start_service(
        str(path), "--port", "0", "--workers", "1", "--home", str(folder / "home"),
        "--oidc", str(settings), cwd=folder,
    )  # fmt: skip
    served.keys = {"olga": key}
    return served


@pytest.fixture(autouse=True)
def honest(liar):
    liar.claims, liar.lies, liar.signer = {"sub": "ana-1"}, {}, None
    liar.header = {"alg": "RS256", "kid": "k1"}


def begin(client):
    """Leave for the provider and come back; give the address that the browser returns to."""
    leave = client.get("/login/oidc")
    assert leave.status_code == 303
    back = httpx.get(leave.headers["location"], follow_redirects=False)
    assert back.headers["location"].startswith("http://127.0.0.1:1/login/oidc/return?")
    return back.headers["location"].removeprefix("http://127.0.0.1:1")


def sign_in(served):
    with httpx.Client(base_url=served.url, timeout=600) as client:
        done = client.get(begin(client))
        return done, client.get("/ask").status_code, client.get("/v1/budget")


def test_whom_the_owner_lists_is_signed_in_with_the_owners_role(hospital):
    done, page, budget = sign_in(hospital)
    assert (done.status_code, page) == (303, 200)
    assert budget.json()["result"]["analyst"] == "ana"
    assert "HttpOnly" in done.headers["set-cookie"]


def test_a_role_never_comes_from_a_claim(hospital, liar):
    """Not from one that is called so, nor from a group that the owner has not mapped."""
    liar.claims = {"sub": "ana-1", "role": "owner", "roles": ["owner"], "groups": ["owner"]}
    with httpx.Client(base_url=hospital.url, timeout=600) as client:
        client.get(begin(client))
        assert client.get("/owner").status_code == 403
    liar.claims = {"sub": "eve", "role": "owner", "groups": ["owner", "owners"]}
    done, page, budget = sign_in(hospital)
    assert (done.status_code, page, budget.status_code) == (403, 303, 401)


def test_a_group_counts_only_as_the_owner_has_mapped_it(hospital, liar):
    liar.claims = {"sub": "ida", "groups": ["auditors", "others"]}
    with httpx.Client(base_url=hospital.url, timeout=600) as client:
        done = client.get(begin(client))
        assert done.headers["location"] == "/budget"
        assert client.get("/v1/ledger").status_code == 200
        assert client.get("/owner").status_code == 403


def test_nobody_takes_the_name_of_somebody_with_a_key(hospital, liar):
    liar.claims = {"sub": "olga", "groups": ["auditors"]}
    done, page, _ = sign_in(hospital)
    assert (done.status_code, page) == (400, 303)


@pytest.mark.parametrize(
    "lies",
    [{"nonce": "other"}, {"nonce": None}, {"aud": "other"}, {"aud": None},
     {"aud": ["curator", "other"]}, {"iss": "http://127.0.0.1:9"}, {"exp": 1}, {"exp": None},
     {"sub": None}, {"iat": None}],
)  # fmt: skip
def test_a_token_that_lies_signs_nobody_in(hospital, liar, lies):
    liar.lies = lies
    done, page, budget = sign_in(hospital)
    assert (done.status_code, page, budget.status_code) == (401, 303, 401)


@pytest.mark.parametrize("how", ["other key", "none", "shared secret"])
def test_a_token_that_the_provider_has_not_signed_signs_nobody_in(hospital, liar, how):
    if how == "other key":
        liar.signer = liar.other
    elif how == "none":
        liar.header = {"alg": "none"}
    else:  # its public key taken for a secret
        liar.header = {"alg": "HS256", "kid": "k1"}
        liar.signer = jwk.OctKey.import_key(liar.key.as_dict(private=False)["n"])
    done, page, _ = sign_in(hospital)
    assert (done.status_code, page) == (401, 303)


def test_a_return_counts_once_and_in_the_browser_that_left(hospital):
    with httpx.Client(base_url=hospital.url, timeout=600) as client:
        address = begin(client)
        with httpx.Client(base_url=hospital.url, timeout=600) as other:
            assert other.get(address).status_code == 401  # another browser
        kept = dict(client.cookies)
        assert client.get(address).status_code == 303
        again = httpx.get(hospital.url + address, cookies=kept)
        assert again.status_code == 401
        forged = begin(client)
        wrong = forged.replace("state=", "state=x")
        assert client.get(wrong).status_code == 401
        assert client.get(forged).status_code == 401  # its attempt is over


def test_a_code_without_our_verifier_is_worth_nothing(hospital):
    """The provider holds codes to PKCE: one that another browser began is refused."""
    with (
        httpx.Client(base_url=hospital.url, timeout=600) as ana,
        httpx.Client(base_url=hospital.url, timeout=600) as eve,
    ):
        stolen = parse_qs(urlsplit(begin(ana)).query)["code"][0]
        own = begin(eve)
        mine = parse_qs(urlsplit(own).query)["code"][0]
        assert eve.get(own.replace(mine, stolen)).status_code == 401


def test_a_revoked_person_stays_out(hospital, liar):
    liar.claims = {"sub": "ben", "groups": ["auditors"]}
    with httpx.Client(base_url=hospital.url, timeout=600) as client:
        client.get(begin(client))
        assert client.get("/budget").status_code == 200
        listed = hospital("GET", "/v1/keys", who="olga").json()["result"]["keys"]
        id_ = next(k["id"] for k in listed if k["name"] == "ben")
        assert hospital("DELETE", f"/v1/keys/{id_}", who="olga").status_code == 200
        assert client.get("/budget").status_code == 303
        assert client.get(begin(client)).status_code == 400


def test_somebody_who_is_signed_in_has_no_key(hospital):
    """The entry of a person holds no secret: nothing fits it."""
    sign_in(hospital)
    listed = hospital("GET", "/v1/keys", who="olga").json()["result"]["keys"]
    id_ = next(k["id"] for k in listed if k["name"] == "ana")
    assert hospital("GET", "/v1/budget", who=f"dk_{id_}_{'A' * 43}").status_code == 401


WHOLE = 'issuer = "https://provider.example"\nclient_id = "x"\naddress = "https://a.example"\n'


def test_whole_rules_are_read(tmp_path):
    path = tmp_path / "oidc.toml"
    path.write_text(WHOLE)
    assert rules(path).returns_to == "https://a.example/login/oidc/return"


@pytest.mark.parametrize(
    "text",
    [
        WHOLE.replace("https://provider", "http://provider"),
        WHOLE + '[people]\n"a" = { name = "a", role = "king" }',
        WHOLE + "x = 1",
        'issuer = "https://provider.example"',
        "=",
    ],
)
def test_rules_that_are_not_whole_are_refused(tmp_path, text):
    path = tmp_path / "oidc.toml"
    path.write_text(text)
    with pytest.raises(ParameterError):
        rules(path)
