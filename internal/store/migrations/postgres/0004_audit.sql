-- The audit log, to which entries are added only.
CREATE TABLE weir_audit (
	sequence bigint PRIMARY KEY,
	at       bigint NOT NULL,
	actor    text   NOT NULL,
	action   text   NOT NULL,
	object   text   NOT NULL,
	details  text   NOT NULL,
	previous bytea  NOT NULL,
	hash     bytea  NOT NULL
);

CREATE FUNCTION weir_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'entries of the audit log are never changed or removed';
END
$$;

CREATE TRIGGER weir_audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON weir_audit
	FOR EACH STATEMENT EXECUTE FUNCTION weir_audit_refuse();
