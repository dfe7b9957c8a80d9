BEGIN TRANSACTION;
CREATE TABLE discreet_answers (
        policy TEXT NOT NULL,
        number INTEGER NOT NULL PRIMARY KEY REFERENCES discreet_lines (number),
        record TEXT
    ) STRICT;
INSERT INTO "discreet_answers" VALUES('people',2,'["answer 0"]');
INSERT INTO "discreet_answers" VALUES('people',4,'["answer 1"]');
INSERT INTO "discreet_answers" VALUES('people',6,NULL);
INSERT INTO "discreet_answers" VALUES('people',13,'["answer 4"]');
CREATE TABLE discreet_heads (
        one INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
        policy TEXT NOT NULL,
        number INTEGER NOT NULL REFERENCES discreet_lines (number),
        hash TEXT NOT NULL CHECK (length(hash) = 64),
        state TEXT NOT NULL CHECK (state GLOB '{*}')
    ) STRICT;
INSERT INTO "discreet_heads" VALUES(1,'people',14,'18afda38d3a6cfdb5ae7c98cdf95d9145145fe61c10876e5df731626b45b7899','{"budget":{"accounting":"pure","delta":"0/1","epsilon":"3/1","rho":null,"shares":{}},"caps":{"epsilon":"3/1"},"closed":[],"declared":{"accounting":"pure","delta":"0/1","epsilon":"2/1","rho":null,"shares":{}},"format":2,"open":{"8":"127e439da56173b5ab6748ba38e54037236eeab4f12c4bc63026a9f579ae164c"},"period":2,"policy":"people","spent":{"":{"delta":"0/1","epsilon":"1/2","rho":"1/8","rho_delta":"0/1"}}}');
CREATE TABLE discreet_lines (
        policy TEXT NOT NULL,
        number INTEGER NOT NULL PRIMARY KEY CHECK (number > 0),
        at TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('open', 'debit', 'budget', 'close', 'reopen', 'period', 'adopt', 'settle', 'format')),
        body TEXT NOT NULL CHECK (body GLOB '{*}'),
        state TEXT NOT NULL CHECK (length(state) = 64),
        previous TEXT NOT NULL CHECK (length(previous) = 64),
        hash TEXT NOT NULL CHECK (length(hash) = 64),
        jump TEXT CHECK (jump IS NULL OR length(jump) = 64),
        slot TEXT CHECK (slot IS NULL OR kind = 'debit'),
        question TEXT CHECK ((question IS NOT NULL) = (kind = 'debit')),
        settles INTEGER CHECK ((settles IS NOT NULL) = (kind = 'settle'))
    ) STRICT;
INSERT INTO "discreet_lines" VALUES('people',1,'2026-11-15T18:43:00.910777+00:00','open','{"budget":{"accounting":"pure","delta":"0/1","epsilon":"2/1","rho":null,"shares":{}},"caps":{"epsilon":"2/1"},"fingerprint":"81ea556fea796f031fb7eb20cc2e81fde5ca0d50d20c6fac0cf2263ae7f16840","format":2,"policy":"people"}','3edd3331cf42969f925bc53c2dcbc8c0a13f223a8572f6b291ef936b9ff381e2','0000000000000000000000000000000000000000000000000000000000000000','0bed05efe5dbc73ab9d63a27a237eedb688331f1b40a25dff37cd9f4f5929118','0000000000000000000000000000000000000000000000000000000000000000',NULL,NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',2,'2026-11-15T18:43:00.942549+00:00','debit','{"accounting":"pure","analyst":null,"charge":{"epsilon":"1/10"},"cost":{"delta":"0/1","epsilon":"1/10","rho":"1/200","rho_delta":"0/1"},"fingerprint":"f","key":null,"neighbours":"add-remove","noise":"laplace","plan":"q0","question":"bbe965976a44947fd37999d942d4d000fc77ae9c243f07186de1de34cefa4a48","source":"s","tables":["people"],"unit":null}','43e47d5a4409efbb3fe9366e068d1b3c3b3aa8f75d7e69dd26a2f770124edc17','0bed05efe5dbc73ab9d63a27a237eedb688331f1b40a25dff37cd9f4f5929118','37cb4d4ff4f6c68f3d0b25e19c93ba30b6e3b8f4cb3e9f9324663e99e4caa62f','0000000000000000000000000000000000000000000000000000000000000000',NULL,'bbe965976a44947fd37999d942d4d000fc77ae9c243f07186de1de34cefa4a48',NULL);
INSERT INTO "discreet_lines" VALUES('people',3,'2026-11-15T18:43:00.975932+00:00','settle','{"debit":2,"line":"37cb4d4ff4f6c68f3d0b25e19c93ba30b6e3b8f4cb3e9f9324663e99e4caa62f","question":"bbe965976a44947fd37999d942d4d000fc77ae9c243f07186de1de34cefa4a48","record":"2c2a3a78cbc1f33983f2d7860924a743502690dd310c3a84e4944ce386d2a628"}','5541e6161ba1c769a596072628d768edef10dca1183c108f8054a115686024d0','37cb4d4ff4f6c68f3d0b25e19c93ba30b6e3b8f4cb3e9f9324663e99e4caa62f','7a87a9b8b0bc40b818aa09a913eae7e1cbf5ddf6a29e235da6efeaa120279dca','37cb4d4ff4f6c68f3d0b25e19c93ba30b6e3b8f4cb3e9f9324663e99e4caa62f',NULL,NULL,2);
INSERT INTO "discreet_lines" VALUES('people',4,'2026-11-15T18:43:01.004204+00:00','debit','{"accounting":"pure","analyst":"ann","charge":{"epsilon":"1/5"},"cost":{"delta":"0/1","epsilon":"1/5","rho":"1/50","rho_delta":"0/1"},"fingerprint":"f","key":"k","neighbours":"add-remove","noise":"laplace","plan":"q1","question":"13e714638f162a81bb7c98f5918702303e154098fe357b8137eb485ea2a1f238","source":"s","tables":["people"],"unit":null}','6f2411e6b627eb4519be6c7dcf2ba4c10bb78f667b35ab39e66697958d0ad03c','7a87a9b8b0bc40b818aa09a913eae7e1cbf5ddf6a29e235da6efeaa120279dca','18d40448738dfd794a33e9d20a4bb1197851f6ae7f191ba2ed8a59c98deb5abf','0000000000000000000000000000000000000000000000000000000000000000','07c7e8246cd0cc810f5f87c016f456daa8511a33984d8665e7b823c85b582e45','13e714638f162a81bb7c98f5918702303e154098fe357b8137eb485ea2a1f238',NULL);
INSERT INTO "discreet_lines" VALUES('people',5,'2026-11-15T18:43:01.043765+00:00','settle','{"debit":4,"line":"18d40448738dfd794a33e9d20a4bb1197851f6ae7f191ba2ed8a59c98deb5abf","question":"13e714638f162a81bb7c98f5918702303e154098fe357b8137eb485ea2a1f238","record":"1cbe2224d9448f730951f75fbfd4c958d150ff249034566631009e59d1650a5b"}','da4f7f22569fcb9da481ea2b0cb5eaae12606e198d909563b6fcb997d4bbf23f','18d40448738dfd794a33e9d20a4bb1197851f6ae7f191ba2ed8a59c98deb5abf','7895a8f38995f88259dd779bc8eeb817220050c754e235069a72d612096dd229','18d40448738dfd794a33e9d20a4bb1197851f6ae7f191ba2ed8a59c98deb5abf',NULL,NULL,4);
INSERT INTO "discreet_lines" VALUES('people',6,'2026-11-15T18:43:01.080473+00:00','debit','{"accounting":"pure","analyst":null,"charge":{"epsilon":"1/10"},"cost":{"delta":"0/1","epsilon":"1/10","rho":"1/200","rho_delta":"0/1"},"fingerprint":"f","key":"failed","neighbours":"add-remove","noise":"laplace","plan":"q2","question":"6fb47cac9b89cc91e2ba456893bbf4d03ed85905470b5a090a3e88298cb04665","source":"s","tables":["people"],"unit":null}','1318d325579e8262e7a6b92be1bd35fec5146dc701faa9c026ded1facc834b3b','7895a8f38995f88259dd779bc8eeb817220050c754e235069a72d612096dd229','bee37f5bf5ccc6588d47928431f0bdfcd1932a4182cfb7c30740349d129ca40f','18d40448738dfd794a33e9d20a4bb1197851f6ae7f191ba2ed8a59c98deb5abf','6a2327ad63afef9d18bb72597dfbae132b8d0a0fae626613975136a6dd34cc05','6fb47cac9b89cc91e2ba456893bbf4d03ed85905470b5a090a3e88298cb04665',NULL);
INSERT INTO "discreet_lines" VALUES('people',7,'2026-11-15T18:43:01.108183+00:00','settle','{"debit":6,"line":"bee37f5bf5ccc6588d47928431f0bdfcd1932a4182cfb7c30740349d129ca40f","question":"6fb47cac9b89cc91e2ba456893bbf4d03ed85905470b5a090a3e88298cb04665","record":null}','3bea466f841b2a81961472b59460c376605555eaa1b66e8e6d1b101b75428f18','bee37f5bf5ccc6588d47928431f0bdfcd1932a4182cfb7c30740349d129ca40f','3a47d0b835218f6271a515c1a56358c49ce8b9f24f6dfbd9b03bcbd213c94c49','bee37f5bf5ccc6588d47928431f0bdfcd1932a4182cfb7c30740349d129ca40f',NULL,NULL,6);
INSERT INTO "discreet_lines" VALUES('people',8,'2026-11-15T18:43:01.156055+00:00','debit','{"accounting":"pure","analyst":null,"charge":{"epsilon":"1/10"},"cost":{"delta":"0/1","epsilon":"1/10","rho":"1/200","rho_delta":"0/1"},"fingerprint":"f","key":"open","neighbours":"add-remove","noise":"laplace","plan":"q3","question":"d64d05d0b5fd99d6630017ff9da8dcba968bc385c150d3ad1908f862a4d837f2","source":"s","tables":["people"],"unit":null}','ec80f3aae0b10abfae16655389d5408c8861f5a5eafd0fcd64a44d506db619e6','3a47d0b835218f6271a515c1a56358c49ce8b9f24f6dfbd9b03bcbd213c94c49','7ee72e7683a5aa9fcec191e7fff8ef978d6c22700b4237c46de37d2118f8ca81','0000000000000000000000000000000000000000000000000000000000000000','9f77f1b48cf4d829e4bef2a0d65c2a1d055c2e1b9ff66513d9795ec8fc5ae234','d64d05d0b5fd99d6630017ff9da8dcba968bc385c150d3ad1908f862a4d837f2',NULL);
INSERT INTO "discreet_lines" VALUES('people',9,'2026-11-15T18:43:01.184275+00:00','budget','{"budget":{"accounting":"pure","delta":"0/1","epsilon":"3/1","rho":null,"shares":{}},"by":"owner","caps":{"epsilon":"3/1"},"note":""}','315286be408baf9f81051a84c0daf4af9da599e1a1125a34631bf36463f8e9d6','7ee72e7683a5aa9fcec191e7fff8ef978d6c22700b4237c46de37d2118f8ca81','34a426d296bb1f03080f24140ce5ab2d55a6e88dbeae64e0da1f7de038bf54e1','7ee72e7683a5aa9fcec191e7fff8ef978d6c22700b4237c46de37d2118f8ca81',NULL,NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',10,'2026-11-15T18:43:01.227912+00:00','close','{"by":"owner","note":"","table":"people"}','912084ae5759e85cc67789b7514d276a5d81a0e53948995d8b5ee73f355ae74b','34a426d296bb1f03080f24140ce5ab2d55a6e88dbeae64e0da1f7de038bf54e1','c840014dc035e54d63ddce03164d2afdb45fc35afccb6a848670f279ffbbfd84','7ee72e7683a5aa9fcec191e7fff8ef978d6c22700b4237c46de37d2118f8ca81',NULL,NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',11,'2026-11-15T18:43:01.263812+00:00','reopen','{"by":"owner","note":"","table":"people"}','315286be408baf9f81051a84c0daf4af9da599e1a1125a34631bf36463f8e9d6','c840014dc035e54d63ddce03164d2afdb45fc35afccb6a848670f279ffbbfd84','550602d970f3736aab9373052a444ec9f24769bd6c0a876737ed0b903e4177a6','c840014dc035e54d63ddce03164d2afdb45fc35afccb6a848670f279ffbbfd84',NULL,NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',12,'2026-11-15T18:43:01.299806+00:00','period','{"by":"owner","note":""}','3352390087604c2093847ed0c7c48d928a57d3b83cbb1b1c0dccd5f0c7c3d6bd','550602d970f3736aab9373052a444ec9f24769bd6c0a876737ed0b903e4177a6','0fd9c649bc2da9c0de1f661f11ce7223ceaf955a0d128d6a0a24b550deb6ac94','7ee72e7683a5aa9fcec191e7fff8ef978d6c22700b4237c46de37d2118f8ca81',NULL,NULL,NULL);
INSERT INTO "discreet_lines" VALUES('people',13,'2026-11-15T18:43:01.336198+00:00','debit','{"accounting":"pure","analyst":null,"charge":{"epsilon":"1/2"},"cost":{"delta":"0/1","epsilon":"1/2","rho":"1/8","rho_delta":"0/1"},"fingerprint":"f","key":null,"neighbours":"add-remove","noise":"laplace","plan":"q4","question":"01cc4eebf41859712a42ee00b0c9b03ac630c3e8f98bfc887021ef2013b27441","source":"s","tables":["people"],"unit":null}','9a07711bd848c551bc90c29b070cec9e7d30d80ce85d8643b5b163c416b37794','0fd9c649bc2da9c0de1f661f11ce7223ceaf955a0d128d6a0a24b550deb6ac94','4e4b7a4965e6abc5ad0b117fcf6c6d662d266498268a7d01e667b03f1b82abe1','0fd9c649bc2da9c0de1f661f11ce7223ceaf955a0d128d6a0a24b550deb6ac94',NULL,'01cc4eebf41859712a42ee00b0c9b03ac630c3e8f98bfc887021ef2013b27441',NULL);
INSERT INTO "discreet_lines" VALUES('people',14,'2026-11-15T18:43:01.366666+00:00','settle','{"debit":13,"line":"4e4b7a4965e6abc5ad0b117fcf6c6d662d266498268a7d01e667b03f1b82abe1","question":"01cc4eebf41859712a42ee00b0c9b03ac630c3e8f98bfc887021ef2013b27441","record":"1f7c983c21d68872e49c41536e3d06f86e8d0ce3bee88baa9939b8b2bec6ed83"}','a2a48b4bd0824cb3f0fc6d8cbdb28e7eefe7a6d9e1b89b0a152911d7b15d4ee1','4e4b7a4965e6abc5ad0b117fcf6c6d662d266498268a7d01e667b03f1b82abe1','18afda38d3a6cfdb5ae7c98cdf95d9145145fe61c10876e5df731626b45b7899','0fd9c649bc2da9c0de1f661f11ce7223ceaf955a0d128d6a0a24b550deb6ac94',NULL,NULL,13);
CREATE INDEX discreet_questions ON discreet_lines (question);
CREATE UNIQUE INDEX discreet_slots ON discreet_lines (slot)
        WHERE slot IS NOT NULL;
CREATE UNIQUE INDEX discreet_settlements ON discreet_lines (settles)
        WHERE settles IS NOT NULL;
CREATE TRIGGER discreet_lines_UPDATE BEFORE UPDATE ON discreet_lines
        BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
CREATE TRIGGER discreet_lines_DELETE BEFORE DELETE ON discreet_lines
        BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
CREATE TRIGGER discreet_answers_UPDATE BEFORE UPDATE ON discreet_answers
        BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
CREATE TRIGGER discreet_answers_DELETE BEFORE DELETE ON discreet_answers
        BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
COMMIT;
PRAGMA user_version = 2;
