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
) STRICT;

CREATE TABLE weir_schema (
	version BIGINT PRIMARY KEY,
	name    TEXT   NOT NULL,
	digest  TEXT   NOT NULL,
	applied BIGINT NOT NULL
);

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

CREATE INDEX weir_keys_by_label ON weir_keys (tenant, label, created);

INSERT INTO weir_schema VALUES (1, '0001_keys.sql', '938e6a1386217921b2021ba832f799c95a8b622c45c4d5f99581acf5ccf1958c', 0);
INSERT INTO weir_schema VALUES (2, '0002_usage.sql', 'fdf202e78497ec475fe3cc19cf5d0c13d45dd262caeb1e0745e42944f5ece016', 0);
INSERT INTO weir_keys VALUES ('0123456789', 'acme', 'app', 'inference,admin', x'6868686868686868686868686868686868686868686868686868686868686868', 1700000000000000, 0, 0, 1700000001000000);
INSERT INTO weir_usage VALUES ('acme', 'm', 20000, 3, 30, 4, 5, 6000, 7);
INSERT INTO weir_usage_batches VALUES ('WRITER', 9, 1700000000000000);
