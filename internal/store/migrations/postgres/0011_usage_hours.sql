-- Usage per UTC hour (hours since 1970), tenant, model and API key ('' where another proof
-- counted), already added up, beside the sums per day, which are kept for longer.
CREATE TABLE weir_usage_hours (
	hour         integer NOT NULL,
	tenant       text    COLLATE "C" NOT NULL,
	model        text    COLLATE "C" NOT NULL,
	key          text    COLLATE "C" NOT NULL,
	requests     bigint  NOT NULL,
	input        bigint  NOT NULL,
	cached       bigint  NOT NULL,
	output       bigint  NOT NULL,
	compute_ns   bigint  NOT NULL,
	cost_micros  bigint  NOT NULL,
	PRIMARY KEY (hour, tenant, model, key)
);
