package table

import (
	"encoding/binary"
	"errors"
)

// errCut says that a structure goes on behind the bytes that were read.
var errCut = errors.New("the structure ends behind the bytes")

// thriftCheck walks over a structure in Thrift's compact protocol, as the metadata of Parquet files are written. The library takes as
// much memory for a list or a text as its header promises: skim finds out first whether the bytes are there.
type thriftCheck struct {
	b       []byte
	at      int
	structs int // of lists
}

const (
	maxThriftDepth   = 32
	maxThriftStructs = 1 << 20 // of lists, in a file's metadata: column chunks, about
)

// Types of the compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftInt64  = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

// skimStruct is how many bytes a structure has at the beginning of b; errCut where it has more than b.
func skimStruct(b []byte) (int, error) {
	s := &thriftCheck{b: b}
	err := s.structure(0)
	return s.at, err
}

func (s *thriftCheck) structure(depth int) error {
	if depth > maxThriftDepth {
		return errors.New("its metadata are nested too deeply")
	}
	for {
		head, err := s.byte()
		if err != nil || head == 0 {
			return err
		}
		if head>>4 == 0 {
			if _, err := s.varint(); err != nil {
				return err
			}
		}
		if kind := head & 15; kind != thriftTrue && kind != thriftFalse {
			if err := s.value(kind, depth); err != nil {
				return err
			}
		}
	}
}

func (s *thriftCheck) value(kind byte, depth int) error {
	switch {
	case kind <= thriftByte:
		return s.skip(1)
	case kind <= thriftInt64:
		_, err := s.varint()
		return err
	case kind == thriftDouble:
		return s.skip(8)
	case kind == thriftBinary:
		n, err := s.varint()
		if err != nil {
			return err
		}
		return s.skip(n)
	case kind == thriftList || kind == thriftSet:
		return s.list(depth)
	case kind == thriftMap:
		return errors.New("its metadata have a map, which Parquet has not")
	case kind == thriftStruct:
		return s.structure(depth + 1)
	}
	return errors.New("its metadata are damaged")
}

func (s *thriftCheck) list(depth int) error {
	head, err := s.byte()
	if err != nil {
		return err
	}
	n, kind := uint64(head>>4), head&15
	if n == 15 {
		if n, err = s.varint(); err != nil {
			return err
		}
	}
	if kind == thriftStruct || kind == thriftList {
		if s.structs += int(min(n, maxThriftStructs+1)); s.structs > maxThriftStructs { //nolint:gosec // bounded
			return errors.New("its metadata have too many parts; write larger row groups")
		}
	}
	for range n {
		if err := s.value(kind, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *thriftCheck) byte() (byte, error) {
	if s.at >= len(s.b) {
		return 0, errCut
	}
	s.at++
	return s.b[s.at-1], nil
}

func (s *thriftCheck) varint() (uint64, error) {
	n, size := binary.Uvarint(s.b[s.at:])
	switch {
	case size == 0:
		return 0, errCut
	case size < 0:
		return 0, errors.New("its metadata are damaged")
	}
	s.at += size
	return n, nil
}

func (s *thriftCheck) skip(n uint64) error {
	if n > uint64(len(s.b)-s.at) {
		return errCut
	}
	s.at += int(n) //nolint:gosec // at most len(b)
	return nil
}
