-- Processes and how long their leases last.
CREATE TABLE weir_owners (
	id      TEXT    PRIMARY KEY,
	expires INTEGER NOT NULL
) STRICT;

-- Idempotency keys: in flight under a claim while answer is null.
CREATE TABLE weir_replay (
	tenant      TEXT    NOT NULL,
	key         BLOB    NOT NULL,
	fingerprint BLOB    NOT NULL,
	owner       TEXT    NOT NULL,
	claim       TEXT    NOT NULL,
	expires     INTEGER NOT NULL,
	answer      BLOB,
	PRIMARY KEY (tenant, key)
) STRICT;

CREATE INDEX weir_replay_by_expiry ON weir_replay (expires);
