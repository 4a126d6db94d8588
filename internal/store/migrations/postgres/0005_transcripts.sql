-- Prompts and answers of tenants that agreed to it, scrubbed; prompts and answers are JSON arrays of texts.
CREATE TABLE weir_transcripts (
	id       text   COLLATE "C" PRIMARY KEY,
	tenant   text   COLLATE "C" NOT NULL,
	at       bigint NOT NULL,
	request  text   NOT NULL,
	endpoint text   NOT NULL,
	model    text   NOT NULL,
	status   bigint NOT NULL,
	prompts  text   NOT NULL,
	answers  text   NOT NULL
);

CREATE INDEX weir_transcripts_by_tenant ON weir_transcripts (tenant, at, id);

CREATE INDEX weir_transcripts_by_time ON weir_transcripts (at);
