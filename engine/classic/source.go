package classic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Source says where a version is read from, and how it is served.
type Source struct {
	Name   string // of the model
	Path   string // of the model's file
	Golden string // file of golden rows; empty: MODEL.golden.json beside the model, if it exists
	Options

	Data, GoldenData string // the files' contents, where there are no files
}

// Open reads the files: the model is parsed, its kernel chosen, its rows probed, and the
// golden ones are compared. The reading ends with ctx, whose cause is the error then.
func (s *Source) Open(ctx context.Context) (*Version, error) {
	data, golden := []byte(s.Data), []byte(s.GoldenData)
	if s.Data == "" {
		var err error
		if data, err = readFile(ctx, s.Path, maxModelBytes); err != nil {
			return nil, err
		}
		if golden, err = s.readGolden(ctx); err != nil {
			return nil, err
		}
	}
	o := s.Options
	if len(golden) > 0 {
		var err error
		if o.Golden, err = ReadGolden(golden); err != nil {
			return nil, err
		}
	}
	return Load(data, s.Name, o)
}

// maxModelBytes bounds a model's file.
const maxModelBytes = 8 << 30

// readGolden reads the golden rows; the file beside the model need not exist.
func (s *Source) readGolden(ctx context.Context) ([]byte, error) {
	golden, err := readFile(ctx, cmp.Or(s.Golden, s.Path+".golden.json"), maxGoldenBytes)
	if s.Golden == "" && errors.Is(err, os.ErrNotExist) {
		golden, err = readFile(ctx, strings.TrimSuffix(s.Path, filepath.Ext(s.Path))+".golden.json", maxGoldenBytes)
	}
	switch {
	case s.Golden == "" && errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err == nil && len(golden) == 0:
		return nil, fmt.Errorf("the golden rows of %s are an empty file; write them with weir golden, or remove it", s.Path)
	}
	return golden, err
}

func readFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, folderFault(path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file (%v); give the path of a model's file", path, info.Mode().Type())
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, limit %d", path, info.Size(), limit)
	}
	f, err := os.Open(path) //nolint:gosec // the configuration names the file
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	for err == nil && context.Cause(ctx) == nil {
		_, err = io.CopyN(data, f, readAtOnce)
	}
	if err == io.EOF { //nolint:errorlint // as io.CopyN has it
		return data.Bytes(), nil
	}
	return nil, cmp.Or(err, context.Cause(ctx))
}

// readAtOnce is how much of a file is read before it is asked whether that is wanted still.
const readAtOnce = 16 << 20
