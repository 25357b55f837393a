package bridge

import "golang.org/x/sys/windows"

// noFamily is how Winsock says that there is no ::1; the errors of package
// syscall that are named alike are never met here.
var noFamily = []error{windows.WSAEADDRNOTAVAIL, windows.WSAEAFNOSUPPORT}
