-- The audit log, to which entries are added only.
CREATE TABLE weir_audit (
	sequence INTEGER PRIMARY KEY,
	at       INTEGER NOT NULL,
	actor    TEXT    NOT NULL,
	action   TEXT    NOT NULL,
	object   TEXT    NOT NULL,
	details  TEXT    NOT NULL,
	previous BLOB    NOT NULL,
	hash     BLOB    NOT NULL
) STRICT;

CREATE TRIGGER weir_audit_no_update BEFORE UPDATE ON weir_audit
BEGIN
	SELECT RAISE(ABORT, 'entries of the audit log are never changed');
END;

CREATE TRIGGER weir_audit_no_delete BEFORE DELETE ON weir_audit
BEGIN
	SELECT RAISE(ABORT, 'entries of the audit log are never removed');
END;
