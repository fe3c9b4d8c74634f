-- The bytes of a large blob, in the order of their rows, so that they are written and read piece by piece.
-- Where there are any, the blob's own row has none.

CREATE TABLE blob_pieces (
    row INTEGER PRIMARY KEY,
    blob INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
CREATE INDEX blob_pieces_of_blob ON blob_pieces (blob);
