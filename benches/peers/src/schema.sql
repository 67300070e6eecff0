-- Everything in one schema of a database of its own. Text is compared byte for byte (the cluster is
-- initialized without a locale).

-- One row for each key: what was asked and what was answered, word for word.
CREATE TABLE idempotency (
    key text PRIMARY KEY,
    fingerprint bytea NOT NULL,
    outcome text NOT NULL
);

-- Settlement statements. The id is a UUID of version 7, so that its index grows at one end.
CREATE TABLE statement (
    id uuid PRIMARY KEY,
    code text NOT NULL,
    revision bigint NOT NULL,
    state text NOT NULL,
    CONSTRAINT statement_code UNIQUE (code)
);

-- Resources that commands advance. Pages are left more than half empty, so that a new version of a
-- row finds place beside the old one and no index has to know of it.
CREATE TABLE resource (
    id text PRIMARY KEY,
    revision bigint NOT NULL,
    state text NOT NULL
) WITH (fillfactor = 40);

CREATE TABLE audit (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource text NOT NULL,
    revision bigint NOT NULL,
    entry text NOT NULL
);

CREATE TABLE outbox (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event text NOT NULL
);

-- Opens a statement. Returns null when it did; 'r' and the outcome when the key has been used for the same
-- request; 'k' when it has been used for another one. A violated statement_code says that the code
-- is taken; a violated idempotency_pkey, that the same key is being used right now: the caller
-- asks again.
CREATE FUNCTION open_statement(
    p_key text, p_fingerprint bytea, p_id uuid, p_code text,
    p_state text, p_entry text, p_event text, p_outcome text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_fingerprint bytea;
    v_outcome text;
BEGIN
    SELECT fingerprint, outcome INTO v_fingerprint, v_outcome FROM idempotency WHERE key = p_key;
    IF FOUND THEN
        IF v_fingerprint = p_fingerprint THEN
            RETURN 'r' || v_outcome;
        END IF;
        RETURN 'k';
    END IF;
    INSERT INTO statement (id, code, revision, state) VALUES (p_id, p_code, 1, p_state);
    WITH audited AS (
        INSERT INTO audit (resource, revision, entry) VALUES (p_code, 1, p_entry)
    ), announced AS (
        INSERT INTO outbox (event) VALUES (p_event)
    )
    INSERT INTO idempotency (key, fingerprint, outcome) VALUES (p_key, p_fingerprint, p_outcome);
    RETURN NULL;
END
$$;

-- Advances a resource, or makes it. Returns 'n' and its new revision when it did; 's' and the revision when
-- that is not the expected one; 'a' when the caller has to ask again, since the resource came into
-- being in between; 'r' and 'k' as above. The outcome is p_head, the new revision, and p_tail.
CREATE FUNCTION advance_resource(
    p_key text, p_fingerprint bytea, p_id text, p_expected bigint,
    p_state text, p_entry text, p_event text, p_head text, p_tail text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_fingerprint bytea;
    v_outcome text;
    v_revision bigint;
BEGIN
    SELECT fingerprint, outcome INTO v_fingerprint, v_outcome FROM idempotency WHERE key = p_key;
    IF FOUND THEN
        IF v_fingerprint = p_fingerprint THEN
            RETURN 'r' || v_outcome;
        END IF;
        RETURN 'k';
    END IF;
    UPDATE resource SET revision = revision + 1, state = p_state
        WHERE id = p_id AND (p_expected IS NULL OR revision = p_expected)
        RETURNING revision INTO v_revision;
    IF NOT FOUND THEN
        SELECT revision INTO v_revision FROM resource WHERE id = p_id;
        IF FOUND AND p_expected IS NULL THEN
            RETURN 'a';
        ELSIF coalesce(v_revision, 0) <> coalesce(p_expected, 0) THEN
            RETURN 's' || coalesce(v_revision, 0);
        ELSIF FOUND THEN
            RETURN 'a';
        END IF;
        v_revision := 1;
        INSERT INTO resource (id, revision, state) VALUES (p_id, v_revision, p_state);
    END IF;
    WITH audited AS (
        INSERT INTO audit (resource, revision, entry) VALUES (p_id, v_revision, p_entry)
    ), announced AS (
        INSERT INTO outbox (event) VALUES (p_event)
    )
    INSERT INTO idempotency (key, fingerprint, outcome)
        VALUES (p_key, p_fingerprint, p_head || v_revision || p_tail);
    RETURN 'n' || v_revision;
END
$$;
