import sys

from space_app.app import main

sys.exit(main())
