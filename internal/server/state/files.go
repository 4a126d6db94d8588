package state

import (
	"path/filepath"
	"strings"

	"weir/api/batch"
	"weir/configs"
)

// FilesDir is where the bytes of files are: the setting, or beside the SQLite file, or in the state directory.
func FilesDir(c configs.Config) (string, error) {
	if c.Files.Dir != "" {
		return c.Files.Dir, nil
	}
	url, err := URL(c.Store)
	if err != nil {
		return "", err
	}
	if path, found := strings.CutPrefix(url, SqliteScheme); found {
		path, _, _ = strings.Cut(path, "?")
		return path + ".files", nil
	}
	dir, err := stateDir()
	return filepath.Join(dir, "files"), err
}

// RemoveFiles deletes the bytes of files that the store has forgotten.
func RemoveFiles(c configs.Config, files []batch.File) error {
	if len(files) == 0 {
		return nil
	}
	dir, err := FilesDir(c)
	if err != nil {
		return err
	}
	return batch.RemoveFiles(dir, files)
}
