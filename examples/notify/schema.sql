-- The state of an order: I (initial) until the service was told, then S (sent), or F (failed) where the
-- last attempt failed.
CREATE TABLE IF NOT EXISTS orders (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer text NOT NULL,
    state    text NOT NULL DEFAULT 'I' CHECK (state IN ('I', 'S', 'F')),
    attempts integer NOT NULL DEFAULT 0, -- for people: what counts travels with the message
    error    text,                       -- of the last attempt
    overdue  timestamptz NOT NULL        -- an order that is still I by then has lost its message
);

CREATE INDEX IF NOT EXISTS orders_overdue ON orders (overdue) WHERE state = 'I';
