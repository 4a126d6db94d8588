package batch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"weir/internal/disk"
)

// journal is the append-only record of a batch's answers. A record is one line's answer and its done mark in
// one: the length of what follows the head (4 bytes), a checksum of all that follows it (CRC-32C, 4 bytes),
// the line's index (4), its kind (1: bit 0 where it succeeded, bit 1 where the text is encrypted), and the line of the
// output file. Numbers are little-endian.
// What a crash left half written at the end fails the checksum, and is cut off when the journal is opened.
type journal struct {
	file *os.File
	size int64
	done []uint64 // a bit for each line that has a record
	buf  []byte

	lines *lineCipher // nil: answers are written in clear
}

const (
	recordHead = 8
	recordMark = 5 // index and kind
	// maxRecordBytes bounds what a length may claim: no answer is larger.
	maxRecordBytes = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBusy: another process has the journal open.
var errBusy = errors.New("another process has the journal of the batch")

// record is one line's answer.
type record struct {
	index     int
	succeeded bool // it goes into the output file
	text      []byte

	encrypted bool // the text is, as it is in the file
}

// Bits of a record's kind.
const (
	kindSucceeded = 1 << iota
	kindEncrypted
)

// openJournal opens a batch's journal, or makes it, and calls each with its records in order. A line's second
// record, which nothing writes, is skipped. The journal is locked until it is closed.
func openJournal(path string, lines *lineCipher, each func(record)) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f, lines: lines}
	switch locked, err := disk.TryLock(f, true); {
	case err != nil:
		return nil, errors.Join(err, f.Close())
	case !locked:
		return nil, errors.Join(errBusy, f.Close())
	}
	if err := j.replay(each); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// replay reads the journal and cuts off a tail that is no record.
func (j *journal) replay(each func(record)) error {
	if _, err := j.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(j.file, 64<<10)
	var buf []byte
	for {
		r, n, err := readRecord(in, &buf)
		if errors.Is(err, errTorn) || errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		j.size += int64(n)
		if !j.isDone(r.index) {
			j.mark(r.index)
			if err := j.decrypt(&r); err != nil {
				return err
			}
			each(r)
		}
	}
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	if _, err := j.file.Seek(j.size, io.SeekStart); err != nil {
		return err
	}
	return j.file.Sync()
}

// errTorn: what follows is no whole record.
var errTorn = errors.New("the journal ends within a record")

// readRecord reads the next record into buf, and how many bytes it has.
func readRecord(in io.Reader, buf *[]byte) (record, int, error) {
	var head [recordHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errTorn
		}
		return record{}, 0, err
	}
	length := int(binary.LittleEndian.Uint32(head[:4]))
	if length < recordMark || length > maxRecordBytes {
		return record{}, 0, errTorn
	}
	if err := readGrowing(in, buf, length); err != nil {
		return record{}, 0, err
	}
	body := *buf
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) || body[4]&^(kindSucceeded|kindEncrypted) != 0 {
		return record{}, 0, errTorn
	}
	index := int(binary.LittleEndian.Uint32(body))
	if index >= maxLines {
		return record{}, 0, errTorn
	}
	kind := body[4]
	return record{index, kind&kindSucceeded != 0, body[recordMark:], kind&kindEncrypted != 0}, recordHead + length, nil
}

var errNoCipher = errors.New("the journal is encrypted, and there is no key")

// decrypt gives a record its text.
func (j *journal) decrypt(r *record) (err error) {
	if !r.encrypted {
		return nil
	}
	if j.lines == nil {
		return errNoCipher
	}
	r.text, err = j.lines.decrypt(r.index, r.text)
	r.encrypted = false
	return err
}

// encrypted is a record as it is written.
func (j *journal) encrypted(r record) (record, error) {
	if j.lines == nil {
		return r, nil
	}
	text, err := j.lines.encrypt(r.index, r.text)
	r.text, r.encrypted = text, true
	return r, err
}

// readGrowing reads n bytes into buf, which grows with what is there: a torn length may claim anything.
func readGrowing(in io.Reader, buf *[]byte, n int) error {
	b := (*buf)[:0]
	for len(b) < n {
		step := min(n-len(b), 1<<20)
		if cap(b)-len(b) < step {
			b = append(make([]byte, 0, min(n, 2*cap(b)+step)), b...)
		}
		got, err := io.ReadFull(in, b[len(b):len(b)+step])
		b = b[:len(b)+got]
		*buf = b
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errTorn
		}
		if err != nil {
			return err
		}
	}
	*buf = b
	return nil
}

func appendRecord(dst []byte, r record) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(recordMark+len(r.text)))
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(r.index))
	kind := byte(0)
	if r.succeeded {
		kind |= kindSucceeded
	}
	if r.encrypted {
		kind |= kindEncrypted
	}
	dst = append(append(dst, kind), r.text...)
	binary.LittleEndian.PutUint32(dst[start+4:], crc32.Checksum(dst[start+recordHead:], castagnoli))
	return dst
}

// append writes records and syncs them once: afterwards their lines are done, whatever happens. After an error
// the journal must be opened again.
func (j *journal) append(records []record) error {
	j.buf = j.buf[:0]
	for _, r := range records {
		written, err := j.encrypted(r)
		if err != nil {
			return fmt.Errorf("encrypt the journal: %w", err)
		}
		j.buf = appendRecord(j.buf, written)
	}
	if _, err := j.file.Write(j.buf); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sync the journal: %w", err)
	}
	j.size += int64(len(j.buf))
	for _, r := range records {
		j.mark(r.index)
	}
	if cap(j.buf) > 1<<20 {
		j.buf = nil
	}
	return nil
}

// each calls f with every record.
func (j *journal) each(f func(record) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(j.file, 0, j.size), 64<<10)
	var buf []byte
	for {
		r, _, err := readRecord(in, &buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		if err := j.decrypt(&r); err != nil {
			return err
		}
		if err := f(r); err != nil {
			return err
		}
	}
}

func (j *journal) isDone(index int) bool {
	return index/64 < len(j.done) && j.done[index/64]&(1<<(index%64)) != 0
}

func (j *journal) mark(index int) {
	for index/64 >= len(j.done) {
		j.done = append(j.done, 0)
	}
	j.done[index/64] |= 1 << (index % 64)
}

func (j *journal) close() error { return j.file.Close() }
