-- Events that one commit adds to one log are one row from here on: its number is that of the last, and the bodies
-- stand in order, parted by a sign that is in no JSON (U+001E). A row with one body is what it always was.
--
-- Pairs are written in the order of time, so their rows tell which are oldest; an index by age was one more to
-- write with every call.
DROP INDEX pairs_age;
