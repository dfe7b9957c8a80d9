BEGIN TRANSACTION;
CREATE TABLE discreet_answers (
        policy TEXT NOT NULL,
        number INTEGER NOT NULL PRIMARY KEY REFERENCES discreet_lines (number),
        record TEXT
    ) STRICT;
INSERT INTO "discreet_answers" VALUES('people',2,'["answer 0"]');
INSERT INTO "discreet_answers" VALUES('people',3,'["answer 1"]');
INSERT INTO "discreet_answers" VALUES('people',4,NULL);
INSERT INTO "discreet_answers" VALUES('people',10,'["answer 4"]');
CREATE TABLE discreet_heads (
        one INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
        policy TEXT NOT NULL,
        number INTEGER NOT NULL REFERENCES discreet_lines (number),
        hash TEXT NOT NULL CHECK (length(hash) = 64),
        state TEXT NOT NULL CHECK (state GLOB '{*}')
    ) STRICT;
INSERT INTO "discreet_heads" VALUES(1,'people',10,'2a9a8ad86b9af0e98e6e2210619bdd1755e08d2121a5067de12ffa4f8a6567e8','{"budget":{"accounting":"pure","delta":"0/1","epsilon":"3/1","rho":null,"shares":{}},"caps":{"epsilon":"3/1"},"closed":[],"declared":{"accounting":"pure","delta":"0/1","epsilon":"2/1","rho":null,"shares":{}},"period":2,"policy":"people","spent":{"":{"delta":"0/1","epsilon":"1/2","rho":"1/8","rho_delta":"0/1"}}}');
CREATE TABLE discreet_lines (
        policy TEXT NOT NULL,
        number INTEGER NOT NULL PRIMARY KEY CHECK (number > 0),
        at TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('open', 'debit', 'budget', 'close', 'reopen', 'period', 'adopt')),
        body TEXT NOT NULL CHECK (body GLOB '{*}'),
        state TEXT NOT NULL CHECK (length(state) = 64),
        previous TEXT NOT NULL CHECK (length(previous) = 64),
        hash TEXT NOT NULL CHECK (length(hash) = 64),
        slot TEXT CHECK (slot IS NULL OR kind = 'debit'),
        question TEXT CHECK ((question IS NOT NULL) = (kind = 'debit'))
    ) STRICT;
INSERT INTO "discreet_lines" VALUES('people',1,'2026-11-15T17:18:12.796509+00:00','open','{"budget":{"accounting":"pure","delta":"0/1","epsilon":"2/1","rho":null,"shares":{}},"caps":{"epsilon":"2/1"},"fingerprint":"81ea556fea796f031fb7eb20cc2e81fde5ca0d50d20c6fac0cf2263ae7f16840","policy":"people"}','84e1a49fedd3589cb54b6a8a00866b255e96f2118758c0ca95a821b5c3f4101d','0000000000000000000000000000000000000000000000000000000000000000','4113c2d23cb73c8ddb47412ff86dcb92b282dec33429ddc717159e996c766325',NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',2,'2026-11-15T17:18:12.963171+00:00','debit','{"accounting":"pure","analyst":null,"charge":{"epsilon":"1/5"},"cost":{"delta":"0/1","epsilon":"1/5","rho":"1/50","rho_delta":"0/1"},"fingerprint":"f","key":null,"neighbours":"add-remove","noise":"laplace","plan":"q0","source":"s","tables":["people"],"unit":null}','716f30c16bbf9b0850927e4b4af8f299e0396084bfaa5c62c8ad2991077e7cc2','4113c2d23cb73c8ddb47412ff86dcb92b282dec33429ddc717159e996c766325','17ba1fce65774ff04d79c6a0699c4ee901e03bac8d0dea1f315915cb71ed3b25',NULL,'66f965c8745f05bfa68c1fd0abedf0e9860b37f008696d5c609880150d4d7757');
INSERT INTO "discreet_lines" VALUES('people',3,'2026-11-15T17:18:12.997175+00:00','debit','{"accounting":"pure","analyst":"ann","charge":{"epsilon":"1/5"},"cost":{"delta":"0/1","epsilon":"1/5","rho":"1/50","rho_delta":"0/1"},"fingerprint":"f","key":"k","neighbours":"add-remove","noise":"laplace","plan":"q1","source":"s","tables":["people"],"unit":null}','1c39bffd278f855ebdc3522046cd6c5975bb3c63f7ed75c2054b2ba2dc654149','17ba1fce65774ff04d79c6a0699c4ee901e03bac8d0dea1f315915cb71ed3b25','ddb44f565cf35aee71b91af2be49f44f47251749806cc66a4d88cd38070f8be5','07c7e8246cd0cc810f5f87c016f456daa8511a33984d8665e7b823c85b582e45','13e714638f162a81bb7c98f5918702303e154098fe357b8137eb485ea2a1f238');
INSERT INTO "discreet_lines" VALUES('people',4,'2026-11-15T17:18:13.007512+00:00','debit','{"accounting":"pure","analyst":null,"charge":{"epsilon":"1/10"},"cost":{"delta":"0/1","epsilon":"1/10","rho":"1/200","rho_delta":"0/1"},"fingerprint":"f","key":"failed","neighbours":"add-remove","noise":"laplace","plan":"q2","source":"s","tables":["people"],"unit":null}','8af803a162e9642ec27ca22d5337ec6c45e5bf78812d115f6ee750106cebe1c1','ddb44f565cf35aee71b91af2be49f44f47251749806cc66a4d88cd38070f8be5','19a84e379b50441c84cd1a7cbf23bf7614c26d34e040327820c9f19d679cbcf7','6a2327ad63afef9d18bb72597dfbae132b8d0a0fae626613975136a6dd34cc05','6fb47cac9b89cc91e2ba456893bbf4d03ed85905470b5a090a3e88298cb04665');
INSERT INTO "discreet_lines" VALUES('people',5,'2026-11-15T17:18:13.014779+00:00','debit','{"accounting":"pure","analyst":null,"charge":{"epsilon":"1/10"},"cost":{"delta":"0/1","epsilon":"1/10","rho":"1/200","rho_delta":"0/1"},"fingerprint":"f","key":"open","neighbours":"add-remove","noise":"laplace","plan":"q3","source":"s","tables":["people"],"unit":null}','61c08eeaf77ab0f244a5aca09723d52eee22f93501d864434722ac278afc2e98','19a84e379b50441c84cd1a7cbf23bf7614c26d34e040327820c9f19d679cbcf7','dcf2b3394455248e490a091d15df4b3c31e83c231e5803a1606694694343eec2','9f77f1b48cf4d829e4bef2a0d65c2a1d055c2e1b9ff66513d9795ec8fc5ae234','d64d05d0b5fd99d6630017ff9da8dcba968bc385c150d3ad1908f862a4d837f2');
INSERT INTO "discreet_lines" VALUES('people',6,'2026-11-15T17:18:13.025584+00:00','budget','{"budget":{"accounting":"pure","delta":"0/1","epsilon":"3/1","rho":null,"shares":{}},"by":"owner","caps":{"epsilon":"3/1"},"note":"board"}','50262839c3540adff5fa232ef61010a76a70802de26cd25575fe8eaaf385fbe3','dcf2b3394455248e490a091d15df4b3c31e83c231e5803a1606694694343eec2','a05d9d89cbbbd2571923f9dcf7edefe6ed1e50d15a6d777206a1a7caecebd149',NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',7,'2026-11-15T17:18:13.027798+00:00','close','{"by":"owner","note":"","table":"people"}','531891ae334d98197e89fb538bcf20d4252b2c7ccae3c45fca6fcb2ca89abb2d','a05d9d89cbbbd2571923f9dcf7edefe6ed1e50d15a6d777206a1a7caecebd149','63613e4bcc61b45ca48eddbeac3773874136f6091143f033716dfa0aa5da4661',NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',8,'2026-11-15T17:18:13.032332+00:00','reopen','{"by":"owner","note":"","table":"people"}','50262839c3540adff5fa232ef61010a76a70802de26cd25575fe8eaaf385fbe3','63613e4bcc61b45ca48eddbeac3773874136f6091143f033716dfa0aa5da4661','76bc92c392f3782eb36df1921b0418f26be76ce3aaf78193c9a812a52106c811',NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',9,'2026-11-15T17:18:13.034424+00:00','period','{"by":"owner","note":""}','b60ad16ac1c81b06630f2c654a9511259a658bb9ca0df05f92339e95333fe927','76bc92c392f3782eb36df1921b0418f26be76ce3aaf78193c9a812a52106c811','da254c712153549cfe56fa850f76af658860492689d090e9ee01c7d10f1d6d4a',NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',10,'2026-11-15T17:18:13.041573+00:00','debit','{"accounting":"pure","analyst":null,"charge":{"epsilon":"1/2"},"cost":{"delta":"0/1","epsilon":"1/2","rho":"1/8","rho_delta":"0/1"},"fingerprint":"f","key":null,"neighbours":"add-remove","noise":"laplace","plan":"q4","source":"s","tables":["people"],"unit":null}','2a49af8013bdeb206de92f3c820b29ef64268073e748e55a0a474d35c1423106','da254c712153549cfe56fa850f76af658860492689d090e9ee01c7d10f1d6d4a','2a9a8ad86b9af0e98e6e2210619bdd1755e08d2121a5067de12ffa4f8a6567e8',NULL,'01cc4eebf41859712a42ee00b0c9b03ac630c3e8f98bfc887021ef2013b27441');
CREATE INDEX discreet_questions ON discreet_lines (question);
CREATE UNIQUE INDEX discreet_slots ON discreet_lines (slot)
        WHERE slot IS NOT NULL;
CREATE TRIGGER discreet_lines_UPDATE BEFORE UPDATE ON discreet_lines
        BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
CREATE TRIGGER discreet_lines_DELETE BEFORE DELETE ON discreet_lines
        BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
CREATE TRIGGER discreet_answers_UPDATE BEFORE UPDATE ON discreet_answers
        BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
CREATE TRIGGER discreet_answers_DELETE BEFORE DELETE ON discreet_answers
        BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
COMMIT;
