package gguf

import (
	"fmt"
	"path/filepath"
	"strings"
)

const (
	splitNoKey      = "split.no"            // index of this file, from 0
	splitCountKey   = "split.count"         // number of files
	splitTensorsKey = "split.tensors.count" // number of tensors in all files
)

// splitInfo is what one file says about its place in a split model; count is 0
// for a model in one file.
type splitInfo struct {
	no, count, tensors uint64
}

func (f *File) split() (s splitInfo, err error) {
	for key, dst := range map[string]*uint64{splitNoKey: &s.no, splitCountKey: &s.count, splitTensorsKey: &s.tensors} {
		if *dst, _, err = f.Uint(key); err != nil {
			return s, err
		}
	}
	if s.count > 1 && s.no >= s.count {
		return s, fmt.Errorf("%w: %s is %d, %s %d", ErrSplit, splitNoKey, s.no, splitCountKey, s.count)
	}
	return s, nil
}

// splitName is the path of file no (from 0) of a split model of count files.
func splitName(prefix string, no, count uint64) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, no+1, count)
}

// openSplits adds the other files of a split model whose first file is f.
func (f *File) openSplits(path string) error {
	first, err := f.split()
	if err != nil || first.count <= 1 {
		return err
	}
	suffix := splitName("", first.no, first.count)
	prefix, ok := strings.CutSuffix(path, suffix)
	if !ok {
		return fmt.Errorf("%w: %s is file %d of %d and must be named *%s", ErrSplit, path, first.no+1, first.count, suffix)
	}
	if first.no != 0 {
		return fmt.Errorf("%w: %s is file %d of %d; open %s",
			ErrSplit, path, first.no+1, first.count, splitName(prefix, 0, first.count))
	}
	for no := uint64(1); no < first.count; no++ {
		if err := f.openSplit(splitName(prefix, no, first.count), no, first.count); err != nil {
			return fmt.Errorf("open file %d of %d of %s: %w", no+1, first.count, filepath.Base(path), err)
		}
	}
	if n := uint64(len(f.Tensors)); n != first.tensors {
		return fmt.Errorf("%w: the %d files hold %d tensors, %s says %d", ErrSplit, first.count, n, splitTensorsKey, first.tensors)
	}
	return nil
}

func (f *File) openSplit(path string, no, count uint64) error {
	p, err := openPart(path)
	if err != nil {
		return err
	}
	f.parts = append(f.parts, p.parts[0]) // from here on f.Close closes it
	s, err := p.split()
	if err != nil {
		return err
	}
	if s.no != no || s.count != count {
		return fmt.Errorf("%w: its %s is %d and its %s %d", ErrSplit, splitNoKey, s.no, splitCountKey, s.count)
	}
	for _, t := range p.Tensors {
		if _, dup := f.tensors[t.Name]; dup {
			return fmt.Errorf("%w: tensor %q is in an earlier file too", ErrSplit, t.Name)
		}
		t.Split = int(no)
		f.tensors[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}
