-- Until when a process holds its idempotency keys, which is sooner than what else it holds by its lease; NULL: a weir that
-- does not renew this, whose keys end with the lease.
ALTER TABLE weir_owners ADD COLUMN claims bigint;

-- What each server says of itself, as JSON; it stands as long as the owner's lease.
CREATE TABLE weir_servers (
	owner  text NOT NULL PRIMARY KEY,
	record text NOT NULL
);

-- Which server has a part in a model of which not all servers have one. A part is the owner's as long as its lease stands;
-- then the next one may take it.
CREATE TABLE weir_deployment_parts (
	model text COLLATE "C" NOT NULL,
	part  bigint NOT NULL, -- from 1
	owner text NOT NULL,
	PRIMARY KEY (model, part),
	UNIQUE (model, owner)
);
