//! The macro that writes `EncryptedColumn<T, V, E>` for an adapter, as `pack_table!` writes `PackTable`.

macro_rules! encrypted_column {
    ($adapter:tt $(#[$attribute:meta])* pub struct $name:ident;) => {
        $(#[$attribute])*
        pub struct $name<T, V, E = Json>(Values<T, V, E>);

        crate::pack_table::table_calls! {
            $adapter $name, Values, rows: None, [T, V, E], [T: OpaqueId, V, E: Encoding<V>]
        }

        impl<T: OpaqueId, V, E: Encoding<V>> $name<T, V, E> {
            /// Returns the fingerprint of a value. Store it with the encrypted value in each write, and look a value up by
            /// `WHERE email_index = …` with its fingerprint. It runs no statement.
            ///
            /// # Errors
            /// [`PackError::Table`](crate::PackError::Table) if the column has no [index](Self::with_index).
            pub fn fingerprint(&self, value: &V) -> Result<Fingerprint<T>, PackError> {
                Ok(self.0.fingerprint(value)?)
            }

            /// Accepts values in plaintext until a time, by [`decrypt_or_plaintext`](Self::decrypt_or_plaintext). The time is part of the
            /// program, so a client that writes to the database cannot change it.
            #[must_use]
            pub fn accept_plaintext_until(mut self, time: SystemTime) -> Self {
                self.0.accepts_plaintext_until = Some(time);
                self
            }

            /// Encrypts a value for the row with this id, with which alone it can be decrypted.
            ///
            /// # Errors
            /// [`PackError::Table`](crate::PackError::Table) if the value cannot be encoded, or takes more than 3 MiB after compression.
            ///
            /// # Panics
            /// If the operating system's random number generator fails.
            pub fn encrypt(&self, id: T::Internal, value: &V) -> Result<Encrypted<T, V>, PackError> {
                const { assert!(!E::IS_GROUPED, "values in groups are encrypted by `encrypt_on`, which reads the group's key") };
                Ok(self.0.encrypt(id, value)?)
            }

            /// Decrypts the value of the row with this id, without a statement. If other processes train dictionaries, use
            /// [`decrypt_on`](Self::decrypt_on), or [`refresh`](Self::refresh) first.
            ///
            /// # Errors
            /// [`PackError::Table`](crate::PackError::Table) if it is not a value of this row and column, or of an unknown dictionary.
            pub fn decrypt(&self, id: T::Internal, encrypted: &Encrypted<T, V>) -> Result<V, PackError> {
                const { assert!(!E::IS_GROUPED, "values in groups are decrypted by `decrypt_on`, which reads the group's key") };
                Ok(self.0.decrypt(id, encrypted)?)
            }

            /// Returns whether a value is under the keyring's sealing secret and the current dictionary, so that
            /// [`rekey`](Self::rekey) leaves it as it is.
            #[must_use]
            pub fn is_current(&self, encrypted: &Encrypted<T, V>) -> bool {
                self.0.is_current(encrypted)
            }

            opaque_id_sql::methods! {
                $adapter

                /// Opens the column with this name, such as `customers_notes`. Values are bound to the name: it cannot be changed, and no
                /// two columns may have the same one. A column without settings gets these. Values need their level and padding of rows.
                /// Open a column once, when the process starts, and clone it. Once it has values, use
                /// [`open_existing`](Self::open_existing), because lost settings are then an error. Open columns of this name in other
                /// databases separately, and also in schemas that a connection's `search_path` chooses.
                ///
                /// The keyring is a `&Keyring` or a `&SharedKeyring`. The column and its clones follow the rotation of a
                /// `SharedKeyring`. The name is a text, or a [`TableName`](crate::TableName) with a context.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), for example if values have groups and the first call is in a transaction.
                ///
                /// # Panics
                /// Panics like [`create_sql`](Self::create_sql).
                fn open(
                    keyring: impl Into<SharedKeyring>,
                    name: impl Into<TableName>,
                    settings: Settings,
                ) -> Self {
                    Values::open(keyring.into(), name.into(), Some(settings))?.map(Self)
                }

                /// Gives the column a blind index. An application finds rows by it, and a unique index keeps values unique, although the
                /// database cannot read them. `normalize` returns the text that look-ups compare, for example by a
                /// [`Normalizer`](crate::Normalizer). All processes must use the same function.
                ///
                /// The first call makes the key of the index and keeps it in the settings. A rotation encrypts this key again, so
                /// fingerprints stay the same. A process that opened the column earlier need not know it.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), also if the first call is part of a transaction. Its rollback would remove the key.
                fn with_index(
                    [mut self],
                    normalize: impl Fn(&V) -> String + Send + Sync + 'static,
                ) -> Self {
                    self.0.make_index().map(move |()| {
                        self.0.normalize = Some(std::sync::Arc::new(normalize));
                        self
                    })
                }

                /// Reads a value of a table that is being converted: the plaintext if the row has one, and the decrypted value otherwise. Pass
                /// both columns of one read. Like [`decrypt_on`](Self::decrypt_on), it may run a statement.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), also for a plaintext after the time of
                /// [`accept_plaintext_until`](Self::accept_plaintext_until) or without such a time.
                fn decrypt_or_plaintext(
                    &self,
                    id: T::Internal,
                    encrypted: Option<&Encrypted<T, V>>,
                    plaintext: Option<V>,
                ) -> Option<V> where V: Send {
                    self.0.decrypt_or_plaintext(id, encrypted, plaintext)
                }

                /// Encrypts all plaintext, decrypts all values, or writes their fingerprints, while the application runs. It walks the
                /// table by key, a page of 64 rows at a time, and skips rows that change meanwhile. A later call continues. `progress`
                /// receives the number of rows that are done. [The guide](crate::guide) has the steps of a deployment.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError) if it cannot continue. Rows that cannot be converted are in the result. In a
                /// transaction, and with some errors that diesel does not tell apart, a refused row ends the call.
                fn convert(
                    &self,
                    column: &ColumnName,
                    to: Conversion,
                    progress: impl FnMut(u64) + Send + 'static,
                ) -> Converted {
                    self.0.convert(column, to, progress)?
                }

                /// Reads settings and dictionaries again, because other processes may have changed them. After a failover, it writes a
                /// lost dictionary back if this process has written with it.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn refresh(&self) -> () {
                    self.0.refresh()
                }

                /// Encrypts a value for the row with this id, and reads or makes the key of its group first, if the encoding has
                /// [groups](crate::guide#groups). Otherwise it runs no statement. After a rollback or a lost connection, encrypt again.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), also if the group is erased.
                ///
                /// # Panics
                /// Panics like [`encrypt`](Self::encrypt).
                fn encrypt_on(&self, id: T::Internal, value: &V) -> Encrypted<T, V> {
                    self.0.encrypt_on(id, value)
                }

                /// Decrypts the value of the row with this id, like [`decrypt`](Self::decrypt). It reads the dictionaries if the value
                /// needs an unknown one, and the key of the value's group once a minute. Otherwise it runs no statement.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn decrypt_on(&self, id: T::Internal, encrypted: &Encrypted<T, V>) -> V {
                    self.0.decrypt_on(id, encrypted)
                }

                /// Trains a dictionary of `bytes` bytes, such as 65,536, from sample values of a hundred times that size, and compresses
                /// with it from now on. Values keep their dictionary until the next write or [`rekey`](Self::rekey). Other processes can
                /// read new values by [`decrypt_on`](Self::decrypt_on) at once, and by [`decrypt`](Self::decrypt) after a
                /// [`refresh`](Self::refresh).
                ///
                /// It computes for a second or two without yielding, and for a second per megabyte of samples if they have groups.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), also if there are too few samples, or in a transaction.
                fn train<'v>(
                    &self,
                    samples: impl IntoIterator<Item = &'v V>,
                    bytes: usize,
                ) -> () where V: 'v {
                    self.0.train(samples, bytes)
                }

                /// Encrypts everything again that is not under the sealing secret, and values that are not compressed with the current
                /// dictionary. It walks the table by key, with a statement per value, and replaces only unchanged values. A later call
                /// continues. `progress` receives the number of values that are done.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError). If a value cannot be read or the database refuses the new one, it stays, and all
                /// others are encrypted again before the error is returned.
                fn rekey(
                    &self,
                    column: &ColumnName,
                    progress: impl FnMut(u64) + Send + 'static,
                ) -> Rekeyed {
                    self.0.rekey(Some(column), None, progress)
                }

                /// Encrypts values again like [`rekey`](Self::rekey). If all values already had the current secret and dictionary, and
                /// the dictionary has been current for at least `unused_for`, it deletes the others. The result says how many are left: call it
                /// again until there are none.
                ///
                /// Choose a time within which each process with the column has called [`refresh`](Self::refresh), or was restarted: a value
                /// with a deleted dictionary cannot be read.
                ///
                /// # Errors
                /// The errors are the same as of [`rekey`](Self::rekey). After an error, all dictionaries are still there.
                fn sweep(
                    &self,
                    column: &ColumnName,
                    unused_for: Duration,
                    progress: impl FnMut(u64) + Send + 'static,
                ) -> Rekeyed {
                    self.0.rekey(Some(column), Some(unused_for), progress)
                }

                /// Reads all values, and finds values that cannot be decrypted. If the column's name says so, it also finds plaintext, and
                /// rows without the fingerprint of their value. It changes nothing. `progress` receives the number of values that are done.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError) if it cannot continue.
                fn verify(
                    &self,
                    column: &ColumnName,
                    progress: impl FnMut(u64) + Send + 'static,
                ) -> Verified {
                    self.0.verify(column, progress)?
                }
            }
        }
    };
}

pub(crate) use encrypted_column;
