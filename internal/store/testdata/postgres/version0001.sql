CREATE TABLE weir_keys (id text NOT NULL, tenant text COLLATE "C" NOT NULL, label text COLLATE "C" NOT NULL, scope text NOT NULL, hash bytea NOT NULL, created bigint NOT NULL, expires bigint NOT NULL, revoked bigint NOT NULL, last_used bigint NOT NULL);

CREATE TABLE weir_schema (version bigint NOT NULL, name text NOT NULL, digest text NOT NULL, applied bigint NOT NULL);

ALTER TABLE weir_keys ADD CONSTRAINT weir_keys_pkey PRIMARY KEY (id);

ALTER TABLE weir_schema ADD CONSTRAINT weir_schema_pkey PRIMARY KEY (version);

CREATE INDEX weir_keys_by_label ON weir_keys USING btree (tenant, label, created);

INSERT INTO weir_schema VALUES (1, '0001_keys.sql', 'f0793f831e5779645cdbe819b44b1a6217e6eced0534ac99f3301c2c69ac2a2f', 0);
INSERT INTO weir_keys VALUES ('0123456789', 'acme', 'app', 'inference,admin', '\x6868686868686868686868686868686868686868686868686868686868686868', 1700000000000000, 0, 0, 1700000001000000);
