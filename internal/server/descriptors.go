package server

import "go.uber.org/zap"

// files says how the process's file descriptors are shared out. Without a
// bound below the limit, a flood of connections takes the descriptors that
// log files, the admin listener and model files need.
type files struct {
	limit       int // of the process; 0 is unknown
	asked       int // connections that the configuration allows
	connections int // of the API
	surplus     int // of the API beyond these, which are answered for a moment
	admin       int // of the admin listener
	rpc         int // of gRPC; 0: it is off
}

const (
	leastSpareFiles = 32
	mostSpareFiles  = 256
	mostAdmin       = 32
	mostRPC         = 1024
	mostSurplus     = 16
)

// descriptors shares out what the system lets the process open.
func descriptors(maxConnections int) files {
	f := files{asked: maxConnections, connections: maxConnections, surplus: mostSurplus, admin: mostAdmin}
	limit, known := openFilesLimit()
	if !known {
		return f
	}
	return f.within(limit)
}

// within keeps a quarter of the descriptors, within bounds, for everything
// but the API's connections; of that an eighth is for the admin listener's, and a quarter for surplus connections.
func (f files) within(limit int) files {
	spare := spareFiles(limit)
	f.limit = limit
	f.admin = min(max(spare/8, 2), mostAdmin)
	f.surplus = min(spare/4, mostSurplus)
	f.connections = max(1, min(f.asked, limit-spare))
	return f
}

func spareFiles(limit int) int { return min(max(limit/4, leastSpareFiles), mostSpareFiles) }

// withRPC gives an eighth of the API's connections, as far as the limit knows them, to
// gRPC, whose connections have many calls each.
func (f files) withRPC() files {
	f.rpc = max(1, min(mostRPC, f.connections/8))
	if f.limit > 0 {
		f.connections = max(1, min(f.connections, f.limit-spareFiles(f.limit)-f.rpc))
	}
	return f
}

func (f files) log(log *zap.Logger) {
	fields := []zap.Field{
		zap.Int("connections", f.connections), zap.Int("max_connections", f.asked), zap.Int("open_files_limit", f.limit),
	}
	switch {
	case f.limit > 0 && f.limit < 2*leastSpareFiles:
		log.Warn("the limit on open files is too low to serve well; raise it (ulimit -n)", fields...)
	case f.connections < f.asked:
		log.Info("connections are bounded by the limit on open files; raise it (ulimit -n) for more", fields...)
	default:
		log.Debug("connections are bounded by the configuration", fields...)
	}
}
