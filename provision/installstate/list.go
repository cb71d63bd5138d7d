package installstate

// Entry is one node in the store.
type Entry struct {
	Identity string
	Record   Record // zero without record, or when Err is set
	Err      error  // ErrUnusable; nil when the record is fine or there is none
	Locked   bool   // a living process works on it now
	Holder   Holder // the process, when Locked
}

// HasRecord reports whether there is a record, usable or not.
func (e Entry) HasRecord() bool { return e.Err != nil || e.Record.SchemaVersion != 0 }

// List returns every node that has a record or is being worked on, ordered by
// identity, each with its own error. It changes nothing; a store that does not
// exist is empty. The error concerns the state as a whole, see Load.
func (s *Store) List() ([]Entry, error) {
	var entries []Entry
	holders := map[string]Entry{} // by session: one process has many claims
	err := s.engine.each(false, func(identity string, r row) error {
		entry := Entry{Identity: identity}
		if r.record != nil {
			entry.Record, entry.Err = r.decode(identity)
		}
		if r.session != "" {
			h, ok := holders[r.session]
			if !ok {
				var err error
				if h.Holder, h.Locked, err = s.engine.holder(r.session, false); err != nil {
					return err
				}
				holders[r.session] = h
			}
			entry.Holder, entry.Locked = h.Holder, h.Locked
		}
		if entry.HasRecord() || entry.Locked {
			entries = append(entries, entry)
		}
		return nil
	})
	return entries, err
}

// RestartRequested returns the identities whose installation was cut off between
// the request to restart and its reply: Installing, with that time set. Records
// that cannot be used are left out, since Admit refuses their nodes anyway. The
// error is that of List.
func (s *Store) RestartRequested() ([]string, error) {
	var identities []string
	err := s.engine.each(true, func(identity string, r row) error {
		record, err := r.decode(identity)
		if err == nil && record.Phase == Installing && !record.RestartRequested.IsZero() {
			identities = append(identities, identity)
		}
		return nil
	})
	return identities, err
}
