# Check of the loop: the old module is not used any more.
! grep -n "os.path" notes.py
