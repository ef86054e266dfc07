-- Stop the application, back up, and run this with mysql, mariadb or another client on one connection.
-- p2.user_id is char(36) COLLATE latin1_swedish_ci: text needs more than twice the space of its 16 bytes, in every index, and its order depends on a collation; this collation ignores case
-- posts.id is char(36) COLLATE latin1_swedish_ci: text needs more than twice the space of its 16 bytes, in every index, and its order depends on a collation; this collation ignores case
-- posts.user_id is char(36) COLLATE latin1_swedish_ci: text needs more than twice the space of its 16 bytes, in every index, and its order depends on a collation; this collation ignores case
-- users.id is char(36) COLLATE latin1_swedish_ci: text needs more than twice the space of its 16 bytes, in every index, and its order depends on a collation; this collation ignores case
SET NAMES utf8mb4;
SET @opaque_id_mode = @@SESSION.sql_mode, @opaque_id_safe = @@SESSION.sql_safe_updates;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO', SESSION sql_safe_updates = 0;
SET @opaque_id_ok = 0;
SET @opaque_id_ok = (SELECT COUNT(*) FROM `p2` WHERE NOT (CHAR_LENGTH(`user_id`) IN (32, 36) AND `user_id` REGEXP '^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$')) = 0
    AND (SELECT COUNT(*) FROM `posts` WHERE NOT (CHAR_LENGTH(`id`) IN (32, 36) AND `id` REGEXP '^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$')) = 0
    AND (SELECT COUNT(LOWER(REPLACE(`id`, '-', ''))) - COUNT(DISTINCT LOWER(REPLACE(`id`, '-', ''))) FROM `posts`) = 0
    AND (SELECT COUNT(*) FROM `posts` WHERE NOT (CHAR_LENGTH(`user_id`) IN (32, 36) AND `user_id` REGEXP '^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$')) = 0
    AND (SELECT COUNT(*) FROM `users` WHERE NOT (CHAR_LENGTH(`id`) IN (32, 36) AND `id` REGEXP '^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$')) = 0
    AND (SELECT COUNT(LOWER(REPLACE(`id`, '-', ''))) - COUNT(DISTINCT LOWER(REPLACE(`id`, '-', ''))) FROM `users`) = 0
    AND (SELECT COUNT(*) FROM `p2` c LEFT JOIN `users` p ON c.`user_id` = p.`id` WHERE c.`user_id` IS NOT NULL AND p.`id` IS NULL) = 0
    AND (SELECT COUNT(*) FROM `posts` c LEFT JOIN `users` p ON c.`user_id` = p.`id` WHERE c.`user_id` IS NOT NULL AND p.`id` IS NULL) = 0;
SET @opaque_id_sql = IF(@opaque_id_ok, 'CREATE TABLE `p2_before_opaque_id` LIKE `p2`', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'INSERT INTO `p2_before_opaque_id` (`user_id`, `n`) SELECT `user_id`, `n` FROM `p2`', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM `p2_before_opaque_id`) = (SELECT COUNT(*) FROM `p2`))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'CREATE TABLE `posts_before_opaque_id` LIKE `posts`', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'INSERT INTO `posts_before_opaque_id` (`id`, `user_id`) SELECT `id`, `user_id` FROM `posts`', 'DO 0');
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
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `p2` DROP FOREIGN KEY `p2_ibfk_1`', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM information_schema.referential_constraints
        WHERE constraint_schema = DATABASE() AND table_name = ''p2'' AND constraint_name = ''p2_ibfk_1'') = 0)', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `posts` DROP FOREIGN KEY `posts_ibfk_1`', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM information_schema.referential_constraints
        WHERE constraint_schema = DATABASE() AND table_name = ''posts'' AND constraint_name = ''posts_ibfk_1'') = 0)', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `p2` MODIFY `user_id` VARBINARY(36) NOT NULL', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = (EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = ''p2'' AND column_name = ''user_id'' AND data_type = ''varbinary''))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'UPDATE `p2` SET `user_id` = UNHEX(REPLACE(`user_id`, ''-'', '''')) WHERE LENGTH(`user_id`) IN (32, 36)', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM `p2` WHERE LENGTH(`user_id`) <> 16) = 0)', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `p2` MODIFY `user_id` BINARY(16) NOT NULL', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = (EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = ''p2'' AND column_name = ''user_id'' AND data_type = ''binary''))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
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
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `posts` MODIFY `user_id` VARBINARY(36) NOT NULL', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = (EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = ''posts'' AND column_name = ''user_id'' AND data_type = ''varbinary''))', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'UPDATE `posts` SET `user_id` = UNHEX(REPLACE(`user_id`, ''-'', '''')) WHERE LENGTH(`user_id`) IN (32, 36)', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM `posts` WHERE LENGTH(`user_id`) <> 16) = 0)', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'ALTER TABLE `posts` MODIFY `user_id` BINARY(16) NOT NULL', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = (EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = ''posts'' AND column_name = ''user_id'' AND data_type = ''binary''))', 'DO 0');
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
SET @opaque_id_sql = IF(@opaque_id_begun, 'ALTER TABLE `p2` ADD CONSTRAINT `p2_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `users` (`id`) ON UPDATE RESTRICT ON DELETE RESTRICT', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM information_schema.referential_constraints
        WHERE constraint_schema = DATABASE() AND table_name = ''p2'' AND constraint_name = ''p2_ibfk_1'') = 1)', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_begun, 'ALTER TABLE `posts` ADD CONSTRAINT `posts_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `users` (`id`) ON UPDATE RESTRICT ON DELETE RESTRICT', 'DO 0');
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET @opaque_id_sql = IF(@opaque_id_ok, 'SET @opaque_id_ok = ((SELECT COUNT(*) FROM information_schema.referential_constraints
        WHERE constraint_schema = DATABASE() AND table_name = ''posts'' AND constraint_name = ''posts_ibfk_1'') = 1)', 'DO 0');
SET @opaque_id_ok = 0;
PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;
SET SESSION sql_mode = @opaque_id_mode, SESSION sql_safe_updates = @opaque_id_safe;
SELECT CASE WHEN @opaque_id_ok THEN 'done' WHEN @opaque_id_begun THEN 'STOPPED HALF-WAY: the old rows are in the …_before_opaque_id tables'
    ELSE 'nothing was changed: not all rows can be converted' END AS opaque_id;
-- The old rows; drop these tables when you no longer need them:
-- DROP TABLE `p2_before_opaque_id`;
-- DROP TABLE `posts_before_opaque_id`;
-- DROP TABLE `users_before_opaque_id`;
-- key columns: 0 right, 4 wrong, 0 not judged
