//go:build unix

package bridge

import "syscall"

// noFamily is how bind(2) and socket(2) say that there is no ::1.
var noFamily = []error{syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT}
