CREATE OR REPLACE FUNCTION weir_audit_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
	RAISE EXCEPTION 'entries of the audit log are never changed or removed';
END
$function$
;

CREATE OR REPLACE FUNCTION weir_audit_refuse_unkeyed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
	IF EXISTS (SELECT 1 FROM weir_audit WHERE keyed = 1) THEN
		RAISE EXCEPTION 'the audit log is keyed, and an entry without the key is refused';
	END IF;
	RETURN NEW;
END
$function$
;

CREATE TABLE weir_audit (sequence bigint NOT NULL, at bigint NOT NULL, actor text NOT NULL, action text NOT NULL, object text NOT NULL, details text NOT NULL, previous bytea NOT NULL, hash bytea NOT NULL, keyed smallint NOT NULL);

CREATE TABLE weir_batches (id text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL, place text NOT NULL, input text COLLATE "C" NOT NULL, status text NOT NULL, created bigint NOT NULL, cancelling bigint NOT NULL, ended bigint NOT NULL, owner text NOT NULL, record text NOT NULL, data_key text NOT NULL);

CREATE TABLE weir_deployment_parts (model text COLLATE "C" NOT NULL, part bigint NOT NULL, owner text NOT NULL);

CREATE TABLE weir_deployments (model text COLLATE "C" NOT NULL, record text NOT NULL, revision bigint NOT NULL, deleted bigint NOT NULL);

CREATE TABLE weir_deployments_observed (model text COLLATE "C" NOT NULL, owner text NOT NULL, record text NOT NULL, at bigint NOT NULL);

CREATE TABLE weir_files (id text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL, place text NOT NULL, purpose text NOT NULL, name text NOT NULL, bytes bigint NOT NULL, created bigint NOT NULL, expires bigint NOT NULL, data_key text NOT NULL);

CREATE TABLE weir_key_changes (id bigint NOT NULL, number bigint NOT NULL);

CREATE TABLE weir_key_store (id text NOT NULL);

CREATE TABLE weir_keys (id text NOT NULL, tenant text COLLATE "C" NOT NULL, label text COLLATE "C" NOT NULL, scope text NOT NULL, hash bytea NOT NULL, created bigint NOT NULL, expires bigint NOT NULL, revoked bigint NOT NULL, last_used bigint NOT NULL, terms text NOT NULL, account text NOT NULL);

CREATE TABLE weir_owners (id text NOT NULL, expires bigint NOT NULL, claims bigint);

CREATE TABLE weir_replay (tenant text COLLATE "C" NOT NULL, key bytea NOT NULL, fingerprint bytea NOT NULL, owner text NOT NULL, claim text NOT NULL, expires bigint NOT NULL, answer bytea, data_key text NOT NULL);

CREATE TABLE weir_responses (tenant text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, previous text COLLATE "C" NOT NULL, status text NOT NULL, owner text NOT NULL, used bigint NOT NULL, expires bigint NOT NULL, input bytea NOT NULL, object bytea NOT NULL, data_key text NOT NULL);

CREATE TABLE weir_rollout_answers (key text NOT NULL, home text NOT NULL, arm bigint NOT NULL, step bigint NOT NULL, at bigint NOT NULL);

CREATE TABLE weir_rollout_outcomes (answer text NOT NULL, kind bigint NOT NULL, home text NOT NULL, value double precision NOT NULL, counted double precision, at bigint NOT NULL);

CREATE TABLE weir_rollouts (id text COLLATE "C" NOT NULL, at bigint NOT NULL, record text NOT NULL, owner text NOT NULL);

CREATE TABLE weir_schema (version bigint NOT NULL, name text NOT NULL, digest text NOT NULL, applied bigint NOT NULL);

CREATE TABLE weir_servers (owner text NOT NULL, record text NOT NULL);

CREATE TABLE weir_tenants (name text COLLATE "C" NOT NULL, spec text NOT NULL, revision bigint NOT NULL, created bigint NOT NULL, changed bigint NOT NULL, deleted bigint NOT NULL);

CREATE TABLE weir_transcripts (id text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL, at bigint NOT NULL, request text NOT NULL, endpoint text NOT NULL, model text NOT NULL, status bigint NOT NULL, prompts text NOT NULL, answers text NOT NULL, data_key text NOT NULL);

CREATE TABLE weir_usage (tenant text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL, day integer NOT NULL, requests bigint NOT NULL, input bigint NOT NULL, cached bigint NOT NULL, output bigint NOT NULL, compute_ns bigint NOT NULL, cost_micros bigint NOT NULL);

CREATE TABLE weir_usage_batches (writer text NOT NULL, batch bigint NOT NULL, at bigint NOT NULL);

CREATE TABLE weir_usage_hours (hour integer NOT NULL, tenant text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL, requests bigint NOT NULL, input bigint NOT NULL, cached bigint NOT NULL, output bigint NOT NULL, compute_ns bigint NOT NULL, cost_micros bigint NOT NULL);

ALTER TABLE weir_audit ADD CONSTRAINT weir_audit_pkey PRIMARY KEY (sequence);

ALTER TABLE weir_batches ADD CONSTRAINT weir_batches_pkey PRIMARY KEY (id);

ALTER TABLE weir_deployment_parts ADD CONSTRAINT weir_deployment_parts_model_owner_key UNIQUE (model, owner);

ALTER TABLE weir_deployment_parts ADD CONSTRAINT weir_deployment_parts_pkey PRIMARY KEY (model, part);

ALTER TABLE weir_deployments_observed ADD CONSTRAINT weir_deployments_observed_pkey PRIMARY KEY (model, owner);

ALTER TABLE weir_deployments ADD CONSTRAINT weir_deployments_pkey PRIMARY KEY (model);

ALTER TABLE weir_deployments ADD CONSTRAINT weir_deployments_revision_key UNIQUE (revision);

ALTER TABLE weir_files ADD CONSTRAINT weir_files_pkey PRIMARY KEY (id);

ALTER TABLE weir_key_changes ADD CONSTRAINT weir_key_changes_pkey PRIMARY KEY (id);

ALTER TABLE weir_key_store ADD CONSTRAINT weir_key_store_pkey PRIMARY KEY (id);

ALTER TABLE weir_keys ADD CONSTRAINT weir_keys_pkey PRIMARY KEY (id);

ALTER TABLE weir_owners ADD CONSTRAINT weir_owners_pkey PRIMARY KEY (id);

ALTER TABLE weir_replay ADD CONSTRAINT weir_replay_pkey PRIMARY KEY (tenant, key);

ALTER TABLE weir_responses ADD CONSTRAINT weir_responses_pkey PRIMARY KEY (tenant, id);

ALTER TABLE weir_rollout_answers ADD CONSTRAINT weir_rollout_answers_pkey PRIMARY KEY (key);

ALTER TABLE weir_rollout_outcomes ADD CONSTRAINT weir_rollout_outcomes_pkey PRIMARY KEY (answer, kind);

ALTER TABLE weir_rollouts ADD CONSTRAINT weir_rollouts_pkey PRIMARY KEY (id);

ALTER TABLE weir_schema ADD CONSTRAINT weir_schema_pkey PRIMARY KEY (version);

ALTER TABLE weir_servers ADD CONSTRAINT weir_servers_pkey PRIMARY KEY (owner);

ALTER TABLE weir_tenants ADD CONSTRAINT weir_tenants_pkey PRIMARY KEY (name);

ALTER TABLE weir_tenants ADD CONSTRAINT weir_tenants_revision_key UNIQUE (revision);

ALTER TABLE weir_transcripts ADD CONSTRAINT weir_transcripts_pkey PRIMARY KEY (id);

ALTER TABLE weir_usage_batches ADD CONSTRAINT weir_usage_batches_pkey PRIMARY KEY (writer);

ALTER TABLE weir_usage_hours ADD CONSTRAINT weir_usage_hours_pkey PRIMARY KEY (hour, tenant, model, key);

ALTER TABLE weir_usage ADD CONSTRAINT weir_usage_pkey PRIMARY KEY (day, tenant, model);

CREATE INDEX weir_batches_by_end ON weir_batches USING btree (ended, created);

CREATE INDEX weir_batches_by_input ON weir_batches USING btree (input);

CREATE INDEX weir_batches_by_tenant ON weir_batches USING btree (tenant, created, id);

CREATE INDEX weir_files_by_expiry ON weir_files USING btree (expires) WHERE (expires > 0);

CREATE INDEX weir_files_by_tenant ON weir_files USING btree (tenant, created, id);

CREATE INDEX weir_keys_by_label ON weir_keys USING btree (tenant, label, created);

CREATE INDEX weir_replay_by_expiry ON weir_replay USING btree (expires);

CREATE INDEX weir_responses_by_expiry ON weir_responses USING btree (expires);

CREATE INDEX weir_rollout_answers_at ON weir_rollout_answers USING btree (at);

CREATE INDEX weir_rollout_answers_home ON weir_rollout_answers USING btree (home);

CREATE INDEX weir_rollout_outcomes_at ON weir_rollout_outcomes USING btree (at);

CREATE INDEX weir_rollout_outcomes_new ON weir_rollout_outcomes USING btree (home) WHERE ((counted IS NULL) OR (counted <> value));

CREATE INDEX weir_rollouts_by_time ON weir_rollouts USING btree (at, id);

CREATE INDEX weir_transcripts_by_tenant ON weir_transcripts USING btree (tenant, at, id);

CREATE INDEX weir_transcripts_by_time ON weir_transcripts USING btree (at);

CREATE TRIGGER weir_audit_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON weir_audit FOR EACH STATEMENT EXECUTE FUNCTION weir_audit_refuse();

CREATE TRIGGER weir_audit_stay_keyed BEFORE INSERT ON weir_audit FOR EACH ROW WHEN ((new.keyed = 0)) EXECUTE FUNCTION weir_audit_refuse_unkeyed();

INSERT INTO weir_schema VALUES (1, '0001_keys.sql', 'f0793f831e5779645cdbe819b44b1a6217e6eced0534ac99f3301c2c69ac2a2f', 0);
INSERT INTO weir_schema VALUES (2, '0002_usage.sql', 'b4d49d44ec9c21a8c933ef127df1a346f5adb15ffb5f2d5bf51b023bb7040797', 0);
INSERT INTO weir_schema VALUES (3, '0003_replay.sql', '5e437872a4584cddd1d79347cd10b54a9ceb8adde137802a7f0b36cd3c0987e6', 0);
INSERT INTO weir_schema VALUES (4, '0004_audit.sql', 'c5d716c02d1fbf533449109ff4ce9f617d8d1c0def9212521b40b64bb6a9469b', 0);
INSERT INTO weir_schema VALUES (5, '0005_transcripts.sql', '5d1f150e1af496d1ed9130f4423ae537048f63d26c387de22a0fae1f24382f64', 0);
INSERT INTO weir_schema VALUES (6, '0006_rollouts.sql', '9a4f7a8a008c0d94ad3f410f49cf82c5e038855e7eedbe9334494f4281a8b841', 0);
INSERT INTO weir_schema VALUES (7, '0007_batches.sql', '240e8663ffee4ab51bf6429981c0697ccc537ba661880abeb250f9e9dc143a02', 0);
INSERT INTO weir_schema VALUES (8, '0008_responses.sql', '7f6a076f1a94989c638a002e963d0c8404444be2224c435f27a783f25f15989b', 0);
INSERT INTO weir_schema VALUES (9, '0009_audit_key.sql', 'fef843399c2a9258bece8a55df26988e31a21374688f18758514a68cd332a270', 0);
INSERT INTO weir_schema VALUES (10, '0010_data_keys.sql', '600cb08a86fedabf06113057ad9703750981c0cb2e8edf283d42c89bcabfdd9c', 0);
INSERT INTO weir_schema VALUES (11, '0011_usage_hours.sql', '44d27a172c49689b24238551280f4c9bcb041deaa67c155d07ca14781cc9ba54', 0);
INSERT INTO weir_schema VALUES (12, '0012_tenants.sql', '2b85aa1098f3d1aa688271c66068890c280734c118b7d3683e8c277de710a11a', 0);
INSERT INTO weir_schema VALUES (13, '0013_key_terms.sql', 'c861fa70725768ae3bfe993506bdf09e6fb7c420cf48bce0d3c3bf5714fc1644', 0);
INSERT INTO weir_schema VALUES (14, '0014_key_changes.sql', '92821ff11c2000e113137550fd018fad08252449c1d3af1a0e961f0d6c05c928', 0);
INSERT INTO weir_schema VALUES (15, '0015_deployments.sql', '54d88e2ac850e761bfe5167df68225273e444e11866b2921e3ec095a4ed5de0a', 0);
INSERT INTO weir_schema VALUES (16, '0016_outcomes.sql', 'ecdb110ee1112c11c1b7f89ed4e1368b309d3b8ef14d7a75e0b2383de4f62298', 0);
INSERT INTO weir_schema VALUES (17, '0017_placement.sql', '60a6cf1d33242d880c3b5a0d052467a1294de817d19e76682a2bf6bea7156650', 0);
INSERT INTO weir_schema VALUES (18, '0018_rollout_owners.sql', 'fb76822fd21eb21634412f5494215f98665b41e15e2fb6b4dc88f1ab44840948', 0);
INSERT INTO weir_keys VALUES ('0123456789', 'acme', 'app', 'inference,admin', '\x6868686868686868686868686868686868686868686868686868686868686868', 1700000000000000, 0, 0, 1700000001000000, '{"limits":{"daily_cost":"5"},"models":["m"]}', '');
INSERT INTO weir_key_changes VALUES (1, 3);
INSERT INTO weir_usage VALUES ('acme', 'm', 20000, 3, 30, 4, 5, 6000, 7);
INSERT INTO weir_usage_batches VALUES ('WRITER', 9, 1700000000000000);
INSERT INTO weir_usage_hours VALUES (480000, 'acme', 'm', '0123456789', 3, 30, 4, 5, 6000, 7);
INSERT INTO weir_tenants VALUES ('acme', '{"weight":2}', 3, 1700000000000000, 1700000001000000, 0);
INSERT INTO weir_replay VALUES ('acme', '\x6868686868686868686868686868686868686868686868686868686868686868', '\x6868686868686868686868686868686868686868686868686868686868686868', 'OWNER', 'CLAIM', 9000000000000000, '\x6868686868686868686868686868686868686868686868686868686868686868', '');
INSERT INTO weir_audit VALUES (1, 1700000000000000, 'a', 'key.create', '0123456789', '{}', '\x0000000000000000000000000000000000000000000000000000000000000000', '\x56943df0fec6648f7b151a2e03115fe9163e219cc96facc691e6c58646f6a70c', 0);
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
INSERT INTO weir_responses VALUES ('acme', 'resp_1', '', 'completed', 'OWNER', 1700000000000000, 9000000000000000, '\x6868686868686868686868686868686868686868686868686868686868686868', '\x6868686868686868686868686868686868686868686868686868686868686868', '');
