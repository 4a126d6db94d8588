-- Files of tenants, whose bytes are in a folder (place), and batches, as their own records say, in JSON. owner is the
-- process that runs an unfinished batch, '' for none.
CREATE TABLE weir_files (
	id      TEXT    PRIMARY KEY,
	tenant  TEXT    NOT NULL,
	place   TEXT    NOT NULL,
	purpose TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	bytes   INTEGER NOT NULL,
	created INTEGER NOT NULL,
	expires INTEGER NOT NULL
) STRICT;

CREATE INDEX weir_files_by_tenant ON weir_files (tenant, created, id);
CREATE INDEX weir_files_by_expiry ON weir_files (expires) WHERE expires > 0;

CREATE TABLE weir_batches (
	id         TEXT    PRIMARY KEY,
	tenant     TEXT    NOT NULL,
	place      TEXT    NOT NULL,
	input      TEXT    NOT NULL,
	status     TEXT    NOT NULL,
	created    INTEGER NOT NULL,
	cancelling INTEGER NOT NULL,
	ended      INTEGER NOT NULL,
	owner      TEXT    NOT NULL,
	record     TEXT    NOT NULL
) STRICT;

CREATE INDEX weir_batches_by_tenant ON weir_batches (tenant, created, id);
CREATE INDEX weir_batches_by_end ON weir_batches (ended, created);
CREATE INDEX weir_batches_by_input ON weir_batches (input);
