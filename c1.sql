-- Stop the application, back up, and run this with mysql, mariadb or another client on one connection.
-- posts.id is char(36) COLLATE latin1_swedish_ci: text needs more than twice the space of its 16 bytes, in every index, and its order depends on a collation; this collation ignores case
-- users.id is char(36) COLLATE latin1_swedish_ci: text needs more than twice the space of its 16 bytes, in every index, and its order depends on a collation; this collation ignores case
SET NAMES utf8mb4;
SET @opaque_id_mode = @@SESSION.sql_mode, @opaque_id_safe = @@SESSION.sql_safe_updates;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO', SESSION sql_safe_updates = 0;
SET @opaque_id_ok = 0;
SET @opaque_id_ok = (SELECT COUNT(*) FROM `posts` WHERE NOT (CHAR_LENGTH(`id`) IN (32, 36) AND `id` REGEXP '^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$')) = 0
    AND (SELECT COUNT(LOWER(REPLACE(`id`, '-', ''))) - COUNT(DISTINCT LOWER(REPLACE(`id`, '-', ''))) FROM `posts`) = 0
    AND (SELECT COUNT(*) FROM `users` WHERE NOT (CHAR_LENGTH(`id`) IN (32, 36) AND `id` REGEXP '^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$')) = 0
    AND (SELECT COUNT(LOWER(REPLACE(`id`, '-', ''))) - COUNT(DISTINCT LOWER(REPLACE(`id`, '-', ''))) FROM `users`) = 0;
SET @opaque_id_sql = IF(@opaque_id_ok, 'CREATE TABLE `posts_before_opaque_id` LIKE `posts`', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'INSERT INTO `posts_before_opaque_id` (`id`, `created_by`) SELECT `id`, `created_by` FROM `posts`', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM `posts_before_opaque_id`) = (SELECT COUNT(*) FROM `posts`))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'CREATE TABLE `users_before_opaque_id` LIKE `users`', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'INSERT INTO `users_before_opaque_id` (`id`, `name`) SELECT `id`, `name` FROM `users`', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM `users_before_opaque_id`) = (SELECT COUNT(*) FROM `users`))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_begun = @opaque_id_ok;
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `posts` MODIFY `id` VARBINARY(36) NOT NULL', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = (EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = ''posts'' AND column_name = ''id'' AND data_type = ''varbinary''))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'UPDATE `posts` SET `id` = UNHEX(REPLACE(`id`, ''-'', '''')) WHERE LENGTH(`id`) IN (32, 36)', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM `posts` WHERE LENGTH(`id`) <> 16) = 0)', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `posts` MODIFY `id` BINARY(16) NOT NULL', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = (EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = ''posts'' AND column_name = ''id'' AND data_type = ''binary''))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `users` MODIFY `id` VARBINARY(36) NOT NULL', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = (EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = ''users'' AND column_name = ''id'' AND data_type = ''varbinary''))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'UPDATE `users` SET `id` = UNHEX(REPLACE(`id`, ''-'', '''')) WHERE LENGTH(`id`) IN (32, 36)', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM `users` WHERE LENGTH(`id`) <> 16) = 0)', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `users` MODIFY `id` BINARY(16) NOT NULL', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = (EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = ''users'' AND column_name = ''id'' AND data_type = ''binary''))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET SESSION sql_mode = @opaque_id_mode, SESSION sql_safe_updates = @opaque_id_safe;
SELECT CASE WHEN @opaque_id_ok THEN 'done' WHEN @opaque_id_begun THEN 'STOPPED HALF-WAY: the old rows are in the …_before_opaque_id tables'
    ELSE 'nothing was changed: not all rows can be converted' END AS opaque_id;
-- The old rows; drop these tables when you no longer need them:
-- DROP TABLE `posts_before_opaque_id`;
-- DROP TABLE `users_before_opaque_id`;
-- key columns: 0 right, 2 wrong, 0 not judged
