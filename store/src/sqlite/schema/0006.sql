-- Pieces of large blobs, ordered by `row`, so that they are read and written one at a time. A blob with pieces has no
-- bytes in its own row.

CREATE TABLE blob_pieces (
    row INTEGER PRIMARY KEY,
    blob INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
CREATE INDEX blob_pieces_of_blob ON blob_pieces (blob);
