CREATE TABLE discreet_lines (
    policy text NOT NULL,
    number bigint NOT NULL CHECK (number > 0),
    at text NOT NULL,
    kind text NOT NULL
        CHECK (kind IN ('open', 'debit', 'budget', 'close', 'reopen', 'period', 'adopt')),
    body text NOT NULL,
    state text NOT NULL CHECK (length(state) = 64),
    previous text NOT NULL CHECK (length(previous) = 64),
    hash text NOT NULL CHECK (length(hash) = 64),
    slot text CHECK (slot IS NULL OR kind = 'debit'),
    question text CHECK ((question IS NOT NULL) = (kind = 'debit')),
    PRIMARY KEY (policy, number),
    UNIQUE (policy, slot)
);
CREATE INDEX discreet_questions ON discreet_lines (policy, question);
CREATE TABLE discreet_heads (
    policy text NOT NULL PRIMARY KEY,
    number bigint NOT NULL,
    hash text NOT NULL CHECK (length(hash) = 64),
    state text NOT NULL,
    FOREIGN KEY (policy, number) REFERENCES discreet_lines (policy, number)
);
CREATE TABLE discreet_answers (
    policy text NOT NULL,
    number bigint NOT NULL,
    record text,
    PRIMARY KEY (policy, number),
    FOREIGN KEY (policy, number) REFERENCES discreet_lines (policy, number)
);
