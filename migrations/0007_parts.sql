-- An order that meets very many resting orders executes in parts, each a record of its
-- own. The first part is the order's row in order_log; each further one has a row here.
-- Its executions are rows first_n to last_n of the order in execution_log.
CREATE TABLE part_log (
    seq      bigint PRIMARY KEY,
    order_id bigint NOT NULL,
    first_n  int    NOT NULL,
    last_n   int    NOT NULL,
    open     bigint NOT NULL, -- of the order, before this part; counts 10^-8
    time     bigint NOT NULL
);
