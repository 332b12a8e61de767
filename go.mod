module herdr-link

go 1.26
