-- Tenants that were made by the API, as JSON in the words of the configuration's list. One
-- that was deleted keeps its row, so that other servers see that it changed.
CREATE TABLE weir_tenants (
	name     text   COLLATE "C" PRIMARY KEY,
	spec     text   NOT NULL,
	revision bigint NOT NULL UNIQUE, -- of all tenants together: the last change has the highest
	created  bigint NOT NULL,
	changed  bigint NOT NULL,
	deleted  bigint NOT NULL         -- 0, or when
);
