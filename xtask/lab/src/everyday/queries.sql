CREATE TABLE parts(id INTEGER PRIMARY KEY, name TEXT, price INTEGER, kind INTEGER);
CREATE TABLE orders(part INTEGER, amount INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO parts SELECT i, 'part ' || (i * 7919 % 20011), i * 37 % 1009, i % 17 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
INSERT INTO orders SELECT i * 104729 % 20000 + 1, i % 13 FROM n;
CREATE INDEX by_name ON parts(name);
SELECT kind, count(*), sum(price * amount) FROM parts JOIN orders ON part = id GROUP BY kind ORDER BY 3 DESC;
SELECT count(*) FROM parts WHERE name LIKE 'part 1%7';
SELECT a.name, b.name FROM parts a JOIN parts b ON b.name = 'part ' || a.price WHERE a.kind = 3 ORDER BY a.name DESC LIMIT 5;
