-- The marks of messages that were handled.
-- By hand: psql --single-transaction -f 0001_once.sql

CREATE TABLE IF NOT EXISTS delayer_migrations (
    component text NOT NULL,
    version   integer NOT NULL,
    applied   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (component, version)
);
INSERT INTO delayer_migrations (component, version) VALUES ('once', 1);

CREATE TABLE delayer_once (
    scope  text NOT NULL,            -- which handler
    id     bytea NOT NULL,           -- AMQP's ids are bytes; one of more than 255 is hashed
    marked timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, id)
);

CREATE INDEX delayer_once_marked ON delayer_once (scope, marked);
