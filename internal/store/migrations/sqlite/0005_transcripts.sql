-- Prompts and answers of tenants that agreed to it, scrubbed; prompts and answers are JSON arrays of texts.
CREATE TABLE weir_transcripts (
	id       TEXT    PRIMARY KEY,
	tenant   TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	request  TEXT    NOT NULL,
	endpoint TEXT    NOT NULL,
	model    TEXT    NOT NULL,
	status   INTEGER NOT NULL,
	prompts  TEXT    NOT NULL,
	answers  TEXT    NOT NULL
) STRICT;

CREATE INDEX weir_transcripts_by_tenant ON weir_transcripts (tenant, at, id);

CREATE INDEX weir_transcripts_by_time ON weir_transcripts (at);
