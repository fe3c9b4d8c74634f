-- Records: small named values. Revisions are never reused.

CREATE SEQUENCE record_revisions;

CREATE TABLE records (
    kind       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    value      text NOT NULL,
    revision   bigint NOT NULL,
    expires_at bigint,
    PRIMARY KEY (kind, key)
);
CREATE INDEX records_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;
