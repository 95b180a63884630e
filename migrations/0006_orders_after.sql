-- Order ids go on above this one, also where no order here has it: an exchange that
-- was restored from a backup must not give out ids again that the original gave out
-- after the backup.
ALTER TABLE exchange_state ADD COLUMN orders_after bigint NOT NULL DEFAULT 0;
