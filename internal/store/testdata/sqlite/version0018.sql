CREATE TABLE weir_audit (
	sequence INTEGER PRIMARY KEY,
	at       INTEGER NOT NULL,
	actor    TEXT    NOT NULL,
	action   TEXT    NOT NULL,
	object   TEXT    NOT NULL,
	details  TEXT    NOT NULL,
	previous BLOB    NOT NULL,
	hash     BLOB    NOT NULL
, keyed INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE weir_batches (
	id         TEXT    PRIMARY KEY,
	tenant     TEXT    NOT NULL,
	place      TEXT    NOT NULL,
	input      TEXT    NOT NULL,
	status     TEXT    NOT NULL,
	created    INTEGER NOT NULL,
	cancelling INTEGER NOT NULL,
	ended      INTEGER NOT NULL,
	owner      TEXT    NOT NULL,
	record     TEXT    NOT NULL
, data_key TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE weir_deployment_parts (
	model TEXT NOT NULL,
	part  INTEGER NOT NULL, -- from 1
	owner TEXT NOT NULL,
	PRIMARY KEY (model, part),
	UNIQUE (model, owner)
) STRICT;

CREATE TABLE weir_deployments (
	model    TEXT NOT NULL PRIMARY KEY,
	record   TEXT NOT NULL,
	revision INTEGER NOT NULL UNIQUE, -- of all deployments together: the last change has the highest
	deleted  INTEGER NOT NULL         -- 0, or when
) STRICT;

CREATE TABLE weir_deployments_observed (
	model  TEXT NOT NULL,
	owner  TEXT NOT NULL,
	record TEXT NOT NULL,
	at     INTEGER NOT NULL,
	PRIMARY KEY (model, owner)
) STRICT;

CREATE TABLE weir_files (
	id      TEXT    PRIMARY KEY,
	tenant  TEXT    NOT NULL,
	place   TEXT    NOT NULL,
	purpose TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	bytes   INTEGER NOT NULL,
	created INTEGER NOT NULL,
	expires INTEGER NOT NULL
, data_key TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE weir_key_changes (
	id     INTEGER PRIMARY KEY,
	number INTEGER NOT NULL
) STRICT;

CREATE TABLE weir_key_store (
	id TEXT PRIMARY KEY
) STRICT;

CREATE TABLE weir_keys (
	id        TEXT    PRIMARY KEY,
	tenant    TEXT    NOT NULL,
	label     TEXT    NOT NULL,
	scope     TEXT    NOT NULL,
	hash      BLOB    NOT NULL,
	created   INTEGER NOT NULL,
	expires   INTEGER NOT NULL,
	revoked   INTEGER NOT NULL,
	last_used INTEGER NOT NULL
, terms TEXT NOT NULL DEFAULT '', account TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE weir_owners (
	id      TEXT    PRIMARY KEY,
	expires INTEGER NOT NULL
, claims INTEGER) STRICT;

CREATE TABLE weir_replay (
	tenant      TEXT    NOT NULL,
	key         BLOB    NOT NULL,
	fingerprint BLOB    NOT NULL,
	owner       TEXT    NOT NULL,
	claim       TEXT    NOT NULL,
	expires     INTEGER NOT NULL,
	answer      BLOB, data_key TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (tenant, key)
) STRICT;

CREATE TABLE weir_responses (
	tenant   TEXT    NOT NULL,
	id       TEXT    NOT NULL,
	previous TEXT    NOT NULL,
	status   TEXT    NOT NULL,
	owner    TEXT    NOT NULL,
	used     INTEGER NOT NULL,
	expires  INTEGER NOT NULL,
	input    BLOB    NOT NULL,
	object   BLOB    NOT NULL, data_key TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (tenant, id)
) STRICT;

CREATE TABLE weir_rollout_answers (
	key  TEXT NOT NULL PRIMARY KEY,
	home TEXT NOT NULL,
	arm  INTEGER NOT NULL,
	step INTEGER NOT NULL,
	at   INTEGER NOT NULL
) STRICT;

CREATE TABLE weir_rollout_outcomes (
	answer  TEXT NOT NULL,
	kind    INTEGER NOT NULL,
	home    TEXT NOT NULL,
	value   REAL NOT NULL,
	counted REAL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (answer, kind)
) STRICT;

CREATE TABLE weir_rollouts (
	id     TEXT    PRIMARY KEY,
	at     INTEGER NOT NULL,
	record TEXT    NOT NULL
, owner TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE weir_schema (
	version BIGINT PRIMARY KEY,
	name    TEXT   NOT NULL,
	digest  TEXT   NOT NULL,
	applied BIGINT NOT NULL
);

CREATE TABLE weir_servers (
	owner  TEXT NOT NULL PRIMARY KEY,
	record TEXT NOT NULL
) STRICT;

CREATE TABLE weir_tenants (
	name     TEXT    PRIMARY KEY,
	spec     TEXT    NOT NULL,
	revision INTEGER NOT NULL UNIQUE, -- of all tenants together: the last change has the highest
	created  INTEGER NOT NULL,
	changed  INTEGER NOT NULL,
	deleted  INTEGER NOT NULL         -- 0, or when
) STRICT;

CREATE TABLE weir_transcripts (
	id       TEXT    PRIMARY KEY,
	tenant   TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	request  TEXT    NOT NULL,
	endpoint TEXT    NOT NULL,
	model    TEXT    NOT NULL,
	status   INTEGER NOT NULL,
	prompts  TEXT    NOT NULL,
	answers  TEXT    NOT NULL
, data_key TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE weir_usage (
	tenant       TEXT    NOT NULL,
	model        TEXT    NOT NULL,
	day          INTEGER NOT NULL,
	requests     INTEGER NOT NULL,
	input        INTEGER NOT NULL,
	cached       INTEGER NOT NULL,
	output       INTEGER NOT NULL,
	compute_ns   INTEGER NOT NULL,
	cost_micros  INTEGER NOT NULL,
	PRIMARY KEY (day, tenant, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE weir_usage_batches (
	writer TEXT    PRIMARY KEY,
	batch  INTEGER NOT NULL,
	at     INTEGER NOT NULL
) STRICT;

CREATE TABLE weir_usage_hours (
	hour         INTEGER NOT NULL,
	tenant       TEXT    NOT NULL,
	model        TEXT    NOT NULL,
	key          TEXT    NOT NULL,
	requests     INTEGER NOT NULL,
	input        INTEGER NOT NULL,
	cached       INTEGER NOT NULL,
	output       INTEGER NOT NULL,
	compute_ns   INTEGER NOT NULL,
	cost_micros  INTEGER NOT NULL,
	PRIMARY KEY (hour, tenant, model, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX weir_batches_by_end ON weir_batches (ended, created);

CREATE INDEX weir_batches_by_input ON weir_batches (input);

CREATE INDEX weir_batches_by_tenant ON weir_batches (tenant, created, id);

CREATE INDEX weir_files_by_expiry ON weir_files (expires) WHERE expires > 0;

CREATE INDEX weir_files_by_tenant ON weir_files (tenant, created, id);

CREATE INDEX weir_keys_by_label ON weir_keys (tenant, label, created);

CREATE INDEX weir_replay_by_expiry ON weir_replay (expires);

CREATE INDEX weir_responses_by_expiry ON weir_responses (expires);

CREATE INDEX weir_rollout_answers_at ON weir_rollout_answers (at);

CREATE INDEX weir_rollout_answers_home ON weir_rollout_answers (home);

CREATE INDEX weir_rollout_outcomes_at ON weir_rollout_outcomes (at);

CREATE INDEX weir_rollout_outcomes_new ON weir_rollout_outcomes (home) WHERE counted IS NULL OR counted <> value;

CREATE INDEX weir_rollouts_by_time ON weir_rollouts (at, id);

CREATE INDEX weir_transcripts_by_tenant ON weir_transcripts (tenant, at, id);

CREATE INDEX weir_transcripts_by_time ON weir_transcripts (at);

CREATE TRIGGER weir_audit_no_delete BEFORE DELETE ON weir_audit
BEGIN
	SELECT RAISE(ABORT, 'entries of the audit log are never removed');
END;

CREATE TRIGGER weir_audit_no_update BEFORE UPDATE ON weir_audit
BEGIN
	SELECT RAISE(ABORT, 'entries of the audit log are never changed');
END;

CREATE TRIGGER weir_audit_stay_keyed BEFORE INSERT ON weir_audit
WHEN NEW.keyed = 0 AND EXISTS (SELECT 1 FROM weir_audit WHERE keyed = 1)
BEGIN
	SELECT RAISE(ABORT, 'the audit log is keyed, and an entry without the key is refused');
END;

INSERT INTO weir_schema VALUES (1, '0001_keys.sql', '938e6a1386217921b2021ba832f799c95a8b622c45c4d5f99581acf5ccf1958c', 0);
INSERT INTO weir_schema VALUES (2, '0002_usage.sql', 'fdf202e78497ec475fe3cc19cf5d0c13d45dd262caeb1e0745e42944f5ece016', 0);
INSERT INTO weir_schema VALUES (3, '0003_replay.sql', '4918a2fa8be765bbebcefe1ce062585e2507cd2a57d7684585e4c835ca1f04a4', 0);
INSERT INTO weir_schema VALUES (4, '0004_audit.sql', '7f0510a6f8939ed2d1454a7ece2fea51e5986bb8a20a3cd55006f6a4e907b786', 0);
INSERT INTO weir_schema VALUES (5, '0005_transcripts.sql', 'ca36c90ed97c9b1a387ff276dd61e30136fa6688c9414ab916a622595e08ef52', 0);
INSERT INTO weir_schema VALUES (6, '0006_rollouts.sql', '2875bbeeeb33fe5b0454068e20f2ddb0eee321f0382553ad5df64860f195ba1f', 0);
INSERT INTO weir_schema VALUES (7, '0007_batches.sql', 'd72e86fc6326f405493fa1af6089df3a5302c99353bd2aafc25c8b8bba90549c', 0);
INSERT INTO weir_schema VALUES (8, '0008_responses.sql', '3f615a191f6e06123d87fb0794e4a43e5d9f3955a4414a28a8c42190f8383b84', 0);
INSERT INTO weir_schema VALUES (9, '0009_audit_key.sql', 'eb1c4f76ffc2c7c003ccbfa4b32e0c34c3ec86716c5dc7094ec2fb82b4de5a2b', 0);
INSERT INTO weir_schema VALUES (10, '0010_data_keys.sql', '4e408a2a5ff960bacdee1ef0fa83a0d67940cc2aae87413a00a10e6f0e7c71e9', 0);
INSERT INTO weir_schema VALUES (11, '0011_usage_hours.sql', '956f98bd7e03c969a0547afb5737211cf087bcb15b3fddafc04f9eed95547d52', 0);
INSERT INTO weir_schema VALUES (12, '0012_tenants.sql', '970cbe5ee9c07b93fadeeb92228e3be05b1271acd4aa13dd4a4435ef1cdfd8bc', 0);
INSERT INTO weir_schema VALUES (13, '0013_key_terms.sql', '6ca29142ecdf30ae0d5844ef7f746e36156d9226794f04fb3cd828d282e9da94', 0);
INSERT INTO weir_schema VALUES (14, '0014_key_changes.sql', '7a21f77532dd08e62f0195b4eaf5d4c4744489dc094f30cccbcf51a5021bdb6e', 0);
INSERT INTO weir_schema VALUES (15, '0015_deployments.sql', '361d41488cef876d675ab5e921109c382cb1034eb13c970a48166f326dfe3d1f', 0);
INSERT INTO weir_schema VALUES (16, '0016_outcomes.sql', 'a0565c36f56be8475ad9d32db781a67fee4f640ef036431d8c3f4756e4c71f5b', 0);
INSERT INTO weir_schema VALUES (17, '0017_placement.sql', '4b79f33b0146354a1c9ef02a1a41cef637f1e12f5ac4d330304fe83b18c92785', 0);
INSERT INTO weir_schema VALUES (18, '0018_rollout_owners.sql', '4810f86acfc9734a6dd2be62a74dbf42af563b0dc6ee8c35fbc706b458ac74ad', 0);
INSERT INTO weir_keys VALUES ('0123456789', 'acme', 'app', 'inference,admin', x'6868686868686868686868686868686868686868686868686868686868686868', 1700000000000000, 0, 0, 1700000001000000, '{"limits":{"daily_cost":"5"},"models":["m"]}', '');
INSERT INTO weir_key_changes VALUES (1, 3);
INSERT INTO weir_usage VALUES ('acme', 'm', 20000, 3, 30, 4, 5, 6000, 7);
INSERT INTO weir_usage_batches VALUES ('WRITER', 9, 1700000000000000);
INSERT INTO weir_usage_hours VALUES (480000, 'acme', 'm', '0123456789', 3, 30, 4, 5, 6000, 7);
INSERT INTO weir_tenants VALUES ('acme', '{"weight":2}', 3, 1700000000000000, 1700000001000000, 0);
INSERT INTO weir_replay VALUES ('acme', x'6868686868686868686868686868686868686868686868686868686868686868', x'6868686868686868686868686868686868686868686868686868686868686868', 'OWNER', 'CLAIM', 9000000000000000, x'6868686868686868686868686868686868686868686868686868686868686868', '');
INSERT INTO weir_audit VALUES (1, 1700000000000000, 'a', 'key.create', '0123456789', '{}', x'0000000000000000000000000000000000000000000000000000000000000000', x'56943df0fec6648f7b151a2e03115fe9163e219cc96facc691e6c58646f6a70c', 0);
INSERT INTO weir_transcripts VALUES ('ID', 'acme', 1700000000000000, 'r', '/v1/completions', 'm', 200, '["p"]', '["a"]', '');
INSERT INTO weir_rollouts VALUES ('r1', 1700000000000000, '{"plan":{}}', 'OWNER');
INSERT INTO weir_deployments VALUES ('chat', '{"model":"chat"}', 3, 0);
INSERT INTO weir_deployments_observed VALUES ('chat', 'OWNER', '{"model":"chat"}', 1700000000000000);
INSERT INTO weir_rollout_answers VALUES ('KEY', 'r1', 1, 2, 1700000000000000);
INSERT INTO weir_rollout_outcomes VALUES ('KEY', 1, 'r1', 1, NULL, 1700000000000000);
INSERT INTO weir_servers VALUES ('OWNER', '{"instance":"10.0.0.1:8000","url":"http://10.0.0.1:8000","computes":true}');
INSERT INTO weir_deployment_parts VALUES ('chat', 1, 'OWNER');
INSERT INTO weir_files VALUES ('file-1', 'acme', 'here', 'batch', 'in.jsonl', 9, 1700000000000000, 0, '');
INSERT INTO weir_batches VALUES ('batch_1', 'acme', 'here', 'file-1', 'in_progress', 1700000000000000, 0, 0, 'OWNER', '{"endpoint":"/v1/embeddings"}', '');
INSERT INTO weir_responses VALUES ('acme', 'resp_1', '', 'completed', 'OWNER', 1700000000000000, 9000000000000000, x'6868686868686868686868686868686868686868686868686868686868686868', x'6868686868686868686868686868686868686868686868686868686868686868', '');
