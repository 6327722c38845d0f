/* crc32c */
