-- Responses that clients may go on from. owner is the process that computes one that is not finished.
CREATE TABLE weir_responses (
	tenant   TEXT    NOT NULL,
	id       TEXT    NOT NULL,
	previous TEXT    NOT NULL,
	status   TEXT    NOT NULL,
	owner    TEXT    NOT NULL,
	used     INTEGER NOT NULL,
	expires  INTEGER NOT NULL,
	input    BLOB    NOT NULL,
	object   BLOB    NOT NULL,
	PRIMARY KEY (tenant, id)
) STRICT;

CREATE INDEX weir_responses_by_expiry ON weir_responses (expires);
