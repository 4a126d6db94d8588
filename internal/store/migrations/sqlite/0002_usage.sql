-- Usage per tenant, model and UTC day (days since 1970), already added up.
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

-- The last batch that each writer brought in, so that a batch whose commit was
-- in doubt is not counted twice.
CREATE TABLE weir_usage_batches (
	writer TEXT    PRIMARY KEY,
	batch  INTEGER NOT NULL,
	at     INTEGER NOT NULL
) STRICT;
