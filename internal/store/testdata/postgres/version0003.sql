CREATE TABLE weir_keys (id text NOT NULL, tenant text COLLATE "C" NOT NULL, label text COLLATE "C" NOT NULL, scope text NOT NULL, hash bytea NOT NULL, created bigint NOT NULL, expires bigint NOT NULL, revoked bigint NOT NULL, last_used bigint NOT NULL);

CREATE TABLE weir_owners (id text NOT NULL, expires bigint NOT NULL);

CREATE TABLE weir_replay (tenant text COLLATE "C" NOT NULL, key bytea NOT NULL, fingerprint bytea NOT NULL, owner text NOT NULL, claim text NOT NULL, expires bigint NOT NULL, answer bytea);

CREATE TABLE weir_schema (version bigint NOT NULL, name text NOT NULL, digest text NOT NULL, applied bigint NOT NULL);

CREATE TABLE weir_usage (tenant text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL, day integer NOT NULL, requests bigint NOT NULL, input bigint NOT NULL, cached bigint NOT NULL, output bigint NOT NULL, compute_ns bigint NOT NULL, cost_micros bigint NOT NULL);

CREATE TABLE weir_usage_batches (writer text NOT NULL, batch bigint NOT NULL, at bigint NOT NULL);

ALTER TABLE weir_keys ADD CONSTRAINT weir_keys_pkey PRIMARY KEY (id);

ALTER TABLE weir_owners ADD CONSTRAINT weir_owners_pkey PRIMARY KEY (id);

ALTER TABLE weir_replay ADD CONSTRAINT weir_replay_pkey PRIMARY KEY (tenant, key);

ALTER TABLE weir_schema ADD CONSTRAINT weir_schema_pkey PRIMARY KEY (version);

ALTER TABLE weir_usage_batches ADD CONSTRAINT weir_usage_batches_pkey PRIMARY KEY (writer);

ALTER TABLE weir_usage ADD CONSTRAINT weir_usage_pkey PRIMARY KEY (day, tenant, model);

CREATE INDEX weir_keys_by_label ON weir_keys USING btree (tenant, label, created);

CREATE INDEX weir_replay_by_expiry ON weir_replay USING btree (expires);

INSERT INTO weir_schema VALUES (1, '0001_keys.sql', 'f0793f831e5779645cdbe819b44b1a6217e6eced0534ac99f3301c2c69ac2a2f', 0);
INSERT INTO weir_schema VALUES (2, '0002_usage.sql', 'b4d49d44ec9c21a8c933ef127df1a346f5adb15ffb5f2d5bf51b023bb7040797', 0);
INSERT INTO weir_schema VALUES (3, '0003_replay.sql', '5e437872a4584cddd1d79347cd10b54a9ceb8adde137802a7f0b36cd3c0987e6', 0);
INSERT INTO weir_keys VALUES ('0123456789', 'acme', 'app', 'inference,admin', '\x6868686868686868686868686868686868686868686868686868686868686868', 1700000000000000, 0, 0, 1700000001000000);
INSERT INTO weir_usage VALUES ('acme', 'm', 20000, 3, 30, 4, 5, 6000, 7);
INSERT INTO weir_usage_batches VALUES ('WRITER', 9, 1700000000000000);
INSERT INTO weir_replay VALUES ('acme', '\x6868686868686868686868686868686868686868686868686868686868686868', '\x6868686868686868686868686868686868686868686868686868686868686868', 'OWNER', 'CLAIM', 9000000000000000, '\x6868686868686868686868686868686868686868686868686868686868686868');
