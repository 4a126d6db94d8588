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

CREATE INDEX weir_keys_by_label ON weir_keys (tenant, label, created);

INSERT INTO weir_schema VALUES (1, '0001_keys.sql', '938e6a1386217921b2021ba832f799c95a8b622c45c4d5f99581acf5ccf1958c', 0);
INSERT INTO weir_keys VALUES ('0123456789', 'acme', 'app', 'inference,admin', x'6868686868686868686868686868686868686868686868686868686868686868', 1700000000000000, 0, 0, 1700000001000000);
