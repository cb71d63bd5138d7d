package installstate

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
)

// A journal begins with journalHead as a line of JSON in a sector of its own.
// Each record is a line after it: the checksum in eight hex digits, a blank, the
// record's JSON. The first line whose checksum does not fit ends the journal:
// what follows is blank, of another epoch, or was being written when the machine
// went down.
const (
	journalVersion = 1
	headSize       = 512 // bytes: what a disk replaces whole or not at all
	maxLine        = 2 * maxRecordSize
)

type journalHead struct {
	Version int    `json:"journal"`
	Epoch   string `json:"epoch"` // anew whenever it is emptied; part of each line's checksum
	Boot    string `json:"boot"`  // what disk.boot told, in the same state of the machine as the lines
}

func newHead(boot string) journalHead { return journalHead{journalVersion, rand.Text(), boot} }

func (h journalHead) text() ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(text) >= headSize {
		return nil, fmt.Errorf("a journal's head of %d bytes, want less than %d", len(text), headSize)
	}
	text = append(text, bytes.Repeat([]byte{' '}, headSize-1-len(text))...)
	return append(text, '\n'), nil
}

// lines returns the records as lines of the journal.
func (h journalHead) lines(entries []*entry) ([]byte, error) {
	var lines, record bytes.Buffer
	for _, e := range entries {
		record.Reset()
		if err := json.Compact(&record, e.data); err != nil {
			return nil, err
		}
		fmt.Fprintf(&lines, "%08x %s\n", h.sum(record.Bytes()), record.Bytes())
	}
	return lines.Bytes(), nil
}

// blankLines are lines that hold no record, n bytes of them.
func blankLines(n int64) []byte { return bytes.Repeat([]byte{'\n'}, int(n)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (h journalHead) sum(record []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(h.Epoch), castagnoli), castagnoli, record)
}

// record returns the record in a line, without the line's end; false when the
// line is not one of h.
func (h journalHead) record(line []byte) ([]byte, bool) {
	digits, record, ok := bytes.Cut(line, []byte{' '})
	sum, err := strconv.ParseUint(string(digits), 16, 32)
	return record, ok && err == nil && len(digits) == 8 && uint32(sum) == h.sum(record)
}

func readHead(file *os.File) (journalHead, error) {
	var head journalHead
	text := make([]byte, headSize)
	if _, err := file.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
		return head, err
	}
	err := json.Unmarshal(text, &head)
	switch {
	case err != nil:
		return head, badJournal(file, err)
	case head.Version != journalVersion:
		return head, badJournal(file, fmt.Errorf("version %d is unknown, this program reads version %d", head.Version, journalVersion))
	case head.Epoch == "" || head.Boot == "":
		return head, badJournal(file, errors.New("epoch or boot is missing"))
	}
	return head, nil
}

// badJournal is ErrUnwritable: nothing can be written before the journal is in
// order again.
func badJournal(file *os.File, err error) error {
	return fmt.Errorf("%w: %s cannot be read (%w) and may hold records that are nowhere else; "+
		"once it is moved away, those in the nodes' own files count", ErrUnwritable, file.Name(), err)
}

// readJournal returns the records as they were given to lines, in their order,
// but each without blanks.
func readJournal(file *os.File) (journalHead, [][]byte, error) {
	head, err := readHead(file)
	if err != nil {
		return head, nil, err
	}
	var records [][]byte
	lines := bufio.NewScanner(io.NewSectionReader(file, headSize, journalLimit+maxLine))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		record, ok := head.record(lines.Bytes())
		if !ok {
			break
		}
		records = append(records, bytes.Clone(record))
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) { // no line of ours
		return head, nil, err
	}
	return head, records, nil
}
