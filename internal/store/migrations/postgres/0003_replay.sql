-- Processes and how long their leases last.
CREATE TABLE weir_owners (
	id      text   PRIMARY KEY,
	expires bigint NOT NULL
);

-- Idempotency keys: in flight under a claim while answer is null.
CREATE TABLE weir_replay (
	tenant      text   COLLATE "C" NOT NULL,
	key         bytea  NOT NULL,
	fingerprint bytea  NOT NULL,
	owner       text   NOT NULL,
	claim       text   NOT NULL,
	expires     bigint NOT NULL,
	answer      bytea,
	PRIMARY KEY (tenant, key)
);

CREATE INDEX weir_replay_by_expiry ON weir_replay (expires);
