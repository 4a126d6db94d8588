-- API keys. Times are microseconds since 1970 in UTC; 0 is never.
CREATE TABLE weir_keys (
	id        text   PRIMARY KEY,
	tenant    text   COLLATE "C" NOT NULL,
	label     text   COLLATE "C" NOT NULL,
	scope     text   NOT NULL,
	hash      bytea  NOT NULL,
	created   bigint NOT NULL,
	expires   bigint NOT NULL,
	revoked   bigint NOT NULL,
	last_used bigint NOT NULL
);

CREATE INDEX weir_keys_by_label ON weir_keys (tenant, label, created);
