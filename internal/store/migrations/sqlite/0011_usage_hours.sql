-- Usage per UTC hour (hours since 1970), tenant, model and API key ('' where another proof
-- counted), already added up, beside the sums per day, which are kept for longer.
CREATE TABLE weir_usage_hours (
	hour         INTEGER NOT NULL,
	tenant       TEXT    NOT NULL,
	model        TEXT    NOT NULL,
	key          TEXT    NOT NULL,
	requests     INTEGER NOT NULL,
	input        INTEGER NOT NULL,
	cached       INTEGER NOT NULL,
	output       INTEGER NOT NULL,
	compute_ns   INTEGER NOT NULL,
	cost_micros  INTEGER NOT NULL,
	PRIMARY KEY (hour, tenant, model, key)
) STRICT, WITHOUT ROWID;
