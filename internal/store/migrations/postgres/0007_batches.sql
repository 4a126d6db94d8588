-- Files of tenants, whose bytes are in a folder (place), and batches, as their own records say, in JSON. owner is the
-- process that runs an unfinished batch, '' for none.
CREATE TABLE weir_files (
	id      text   COLLATE "C" PRIMARY KEY,
	tenant  text   COLLATE "C" NOT NULL,
	place   text   NOT NULL,
	purpose text   NOT NULL,
	name    text   NOT NULL,
	bytes   bigint NOT NULL,
	created bigint NOT NULL,
	expires bigint NOT NULL
);

CREATE INDEX weir_files_by_tenant ON weir_files (tenant, created, id);
CREATE INDEX weir_files_by_expiry ON weir_files (expires) WHERE expires > 0;

CREATE TABLE weir_batches (
	id         text   COLLATE "C" PRIMARY KEY,
	tenant     text   COLLATE "C" NOT NULL,
	place      text   NOT NULL,
	input      text   COLLATE "C" NOT NULL,
	status     text   NOT NULL,
	created    bigint NOT NULL,
	cancelling bigint NOT NULL,
	ended      bigint NOT NULL,
	owner      text   NOT NULL,
	record     text   NOT NULL
);

CREATE INDEX weir_batches_by_tenant ON weir_batches (tenant, created, id);
CREATE INDEX weir_batches_by_end ON weir_batches (ended, created);
CREATE INDEX weir_batches_by_input ON weir_batches (input);
