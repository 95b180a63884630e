-- Every ref that a client has used, once an account, with the journal record that used
-- it: that of an order, of shares placed, or of the account's own opening. What came
-- without a ref has no row here. The exchange looks here for refs that it does not hold
-- in memory, so that a request which is sent again is not done a second time.
CREATE TABLE refs (
    account  text COLLATE "C" NOT NULL,
    ref      text COLLATE "C" NOT NULL,
    seq      bigint NOT NULL,
    order_id bigint, -- NULL where the record made no order
    PRIMARY KEY (account, ref)
);
