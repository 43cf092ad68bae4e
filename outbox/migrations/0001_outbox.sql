-- The outbox: messages that a transaction committed and the broker has not confirmed yet.
-- By hand: psql --single-transaction -f 0001_outbox.sql

CREATE TABLE IF NOT EXISTS delayer_migrations (
    component text NOT NULL,
    version   integer NOT NULL,
    applied   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (component, version)
);
INSERT INTO delayer_migrations (component, version) VALUES ('outbox', 1);

CREATE TABLE delayer_outbox (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message  json NOT NULL,          -- exchange, routing_key, properties, headers; json, not jsonb: it keeps \u0000
    body     bytea NOT NULL,
    enqueued timestamptz NOT NULL DEFAULT clock_timestamp(),
    due      timestamptz NOT NULL,
    next_try timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts integer NOT NULL DEFAULT 0,
    error    text                    -- of the last attempt
)
-- Every row is deleted soon: vacuum by count, not by a share of a table that is mostly empty.
WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

CREATE INDEX delayer_outbox_next_try ON delayer_outbox (next_try, id);
