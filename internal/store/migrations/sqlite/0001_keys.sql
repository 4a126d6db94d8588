-- API keys. Times are microseconds since 1970 in UTC; 0 is never.
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

CREATE INDEX weir_keys_by_label ON weir_keys (tenant, label, created);
