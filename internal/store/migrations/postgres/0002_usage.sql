-- Usage per tenant, model and UTC day (days since 1970), already added up.
CREATE TABLE weir_usage (
	tenant       text    COLLATE "C" NOT NULL,
	model        text    COLLATE "C" NOT NULL,
	day          integer NOT NULL,
	requests     bigint  NOT NULL,
	input        bigint  NOT NULL,
	cached       bigint  NOT NULL,
	output       bigint  NOT NULL,
	compute_ns   bigint  NOT NULL,
	cost_micros  bigint  NOT NULL,
	PRIMARY KEY (day, tenant, model)
);

-- The last batch that each writer brought in, so that a batch whose commit was
-- in doubt is not counted twice.
CREATE TABLE weir_usage_batches (
	writer text   PRIMARY KEY,
	batch  bigint NOT NULL,
	at     bigint NOT NULL
);
